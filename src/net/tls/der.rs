//! Reading DER (ITU-T X.690 section 10): enough to walk a certificate, a key or a signature that somebody else validates.
//!
//! Only definite lengths in their shortest form and tags of one byte are read; anything else ends the walk. Nothing here
//! recurses, and each step consumes input, so a walk is as long as its input at most.

/// `INTEGER`.
pub(crate) const INTEGER: u8 = 0x02;
/// `BIT STRING`.
pub(crate) const BIT_STRING: u8 = 0x03;
/// `OCTET STRING`.
pub(crate) const OCTET_STRING: u8 = 0x04;
/// `OBJECT IDENTIFIER`.
pub(crate) const OID: u8 = 0x06;
/// `SEQUENCE`.
pub(crate) const SEQUENCE: u8 = 0x30;
/// `SET`.
pub(crate) const SET: u8 = 0x31;
/// `UTCTime`.
pub(crate) const UTC_TIME: u8 = 0x17;
/// `GeneralizedTime`.
pub(crate) const GENERALIZED_TIME: u8 = 0x18;

/// What is left to read of some DER.
#[derive(Clone, Copy)]
pub(crate) struct Der<'a>(pub(crate) &'a [u8]);

impl<'a> Der<'a> {
    /// The next value, as its tag and contents.
    pub(crate) fn any(&mut self) -> Option<(u8, &'a [u8])> {
        let (&[tag, first], rest) = self.0.split_first_chunk()?;
        if tag & 0x1f == 0x1f {
            return None;
        }
        let (len, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            0x81 => {
                let (&len, rest) = rest.split_first().filter(|(len, _)| **len >= 0x80)?;
                (usize::from(len), rest)
            }
            0x82 => {
                let (&len, rest) = rest.split_first_chunk().filter(|(len, _)| len[0] != 0)?;
                (usize::from(u16::from_be_bytes(len)), rest)
            }
            // 64 KB are more than any certificate or key that is read here.
            _ => return None,
        };
        let (value, rest) = rest.split_at_checked(len)?;
        self.0 = rest;
        Some((tag, value))
    }

    /// The contents of the next value, which must have this tag; when it has not, nothing is consumed.
    pub(crate) fn take(&mut self, tag: u8) -> Option<&'a [u8]> {
        let mut ahead = *self;
        let (_, value) = ahead.any().filter(|(found, _)| *found == tag)?;
        *self = ahead;
        Some(value)
    }

    /// The next value with its tag and length, which must have this tag; when it has not, nothing is consumed.
    pub(crate) fn whole(&mut self, tag: u8) -> Option<&'a [u8]> {
        let all = self.0;
        self.take(tag)?;
        all.get(..all.len().saturating_sub(self.0.len()))
    }

    /// As [`Der::take`], to walk on inside of it.
    pub(crate) fn enter(&mut self, tag: u8) -> Option<Der<'a>> {
        self.take(tag).map(Der)
    }

    /// The next value, a positive `INTEGER` in its shortest form, without the leading zero.
    pub(crate) fn positive(&mut self) -> Option<&'a [u8]> {
        match self.take(INTEGER)? {
            [0, rest @ ..] if rest.first().is_some_and(|high| *high >= 0x80) => Some(rest),
            value @ [1..0x80, ..] => Some(value),
            _ => None,
        }
    }

    /// Whether nothing is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walks_nested_values() {
        let mut der = Der(&[0x30, 6, 2, 1, 5, 4, 1, 7, 0xff]);
        let mut inner = der.enter(SEQUENCE).unwrap();
        assert_eq!(inner.take(OCTET_STRING), None);
        assert_eq!(inner.positive(), Some(&[5][..]));
        assert_eq!(inner.take(OCTET_STRING), Some(&[7][..]));
        assert!(inner.is_empty());
        assert_eq!(der.any(), None);
        let mut der = Der(&[0x30, 1, 9, 4, 0]);
        assert_eq!(der.whole(OCTET_STRING), None);
        assert_eq!(der.whole(SEQUENCE), Some(&[0x30, 1, 9][..]));
        assert_eq!(der.whole(OCTET_STRING), Some(&[4, 0][..]));
    }

    #[test]
    fn long_lengths_must_be_the_shortest() {
        let long = |head: &[u8], len: usize| [head, &vec![0; len]].concat();
        assert_eq!(Der(&long(&[4, 0x81, 0x80], 128)).any().unwrap().1.len(), 128);
        assert_eq!(Der(&long(&[4, 0x82, 1, 0], 256)).any().unwrap().1.len(), 256);
        for head in [&[4, 0x81, 0x7f][..], &[4, 0x82, 0, 0x80], &[4, 0x80], &[4, 0x83, 0, 1, 0], &[0x1f, 1]] {
            assert_eq!(Der(&long(head, 300)).any(), None, "{head:x?}");
        }
        assert_eq!(Der(&long(&[4, 0x81, 0x80], 127)).any(), None);
    }

    #[test]
    fn integers_are_positive_and_short() {
        let positive = |bytes: &'static [u8]| Der(bytes).positive();
        assert_eq!(positive(&[2, 2, 0, 0x80]), Some(&[0x80][..]));
        assert_eq!(positive(&[2, 1, 1]), Some(&[1][..]));
        for bad in [&[2, 1, 0][..], &[2, 1, 0x80], &[2, 2, 0, 1], &[2, 0], &[2, 1], &[3, 1, 1]] {
            assert_eq!(positive(bad), None, "{bad:x?}");
        }
    }
}
