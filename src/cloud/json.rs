//! Reads single strings out of JSON (RFC 8259) that came from elsewhere: a scan over a bounded buffer, which keeps nothing and never goes
//! deeper into itself. What is not JSON is noticed as far as the scan has to read.

use crate::error::CloudError;
use crate::escape;
use crate::text::Text;

/// Puts the string that is the member `name` of the outermost object into `out`.
pub fn string(json: &[u8], name: &str, out: &mut Text<'_>) -> Result<(), CloudError> {
    let mut scan = Scan { rest: json };
    scan.take(b'{')?;
    if scan.peek() == Some(b'}') {
        return Err(CloudError::NoField);
    }
    loop {
        let is_it = scan.string()? == name.as_bytes();
        scan.take(b':')?;
        match (is_it, scan.peek()) {
            (true, Some(b'"')) => return escape::unjson(scan.string()?, out).ok_or(CloudError::NotJson),
            (true, Some(_)) => return Err(CloudError::NoField),
            (true, None) => return Err(CloudError::NotJson),
            _ => scan.skip()?,
        }
        match scan.next() {
            Some(b',') => {}
            Some(b'}') => return Err(CloudError::NoField),
            _ => return Err(CloudError::NotJson),
        }
    }
}

struct Scan<'a> {
    rest: &'a [u8],
}

impl<'a> Scan<'a> {
    /// The next byte that is not white space.
    fn peek(&mut self) -> Option<u8> {
        self.rest = self.rest.trim_ascii_start();
        self.rest.first().copied()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.rest = self.rest.get(1..)?;
        Some(byte)
    }

    fn take(&mut self, byte: u8) -> Result<(), CloudError> {
        if self.next() == Some(byte) { Ok(()) } else { Err(CloudError::NotJson) }
    }

    /// The inside of a string, escapes and all.
    fn string(&mut self) -> Result<&'a [u8], CloudError> {
        self.take(b'"')?;
        let mut is_escaped = false;
        let end = self.rest.iter().position(|b| {
            let ends = *b == b'"' && !is_escaped;
            is_escaped = *b == b'\\' && !is_escaped;
            ends
        });
        let (inside, rest) = end.and_then(|end| self.rest.split_at_checked(end)).ok_or(CloudError::NotJson)?;
        self.rest = rest.get(1..).unwrap_or_default();
        Ok(inside)
    }

    /// Passes over a value: all of what it holds, whatever its order of brackets.
    fn skip(&mut self) -> Result<(), CloudError> {
        let mut depth = 0usize;
        loop {
            match self.peek().ok_or(CloudError::NotJson)? {
                b'"' => {
                    self.string()?;
                }
                b'{' | b'[' => {
                    depth = depth.saturating_add(1);
                    self.next();
                    continue;
                }
                b'}' | b']' if depth > 0 => {
                    depth = depth.saturating_sub(1);
                    self.next();
                }
                b',' | b':' if depth > 0 => {
                    self.next();
                    continue;
                }
                b if b.is_ascii_alphanumeric() || b == b'-' => {
                    let is_part = |b: &u8| b.is_ascii_alphanumeric() || b"+-.".contains(b);
                    let end = self.rest.iter().position(|b| !is_part(b)).unwrap_or(self.rest.len());
                    self.rest = self.rest.get(end..).unwrap_or_default();
                }
                _ => return Err(CloudError::NotJson),
            }
            if depth == 0 {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(json: &str, name: &str) -> Result<String, CloudError> {
        let mut buf = [0; 64];
        let mut text = Text::new(&mut buf);
        string(json.as_bytes(), name, &mut text).map(|()| text.as_str().to_owned())
    }

    #[test]
    fn members_of_the_outermost_object() {
        let json = r#" { "a" : {"id":"inner","x":[1,-2.5e+3,{"id":"]}"}],"y":"\"}"} , "n":null,"t":true,
            "id":"i-1\u00e9\ud83d\ude00\/\n","last":"z" } "#;
        assert_eq!(get(json, "id").unwrap(), "i-1\u{e9}\u{1f600}/\n");
        assert_eq!(get(json, "last").unwrap(), "z");
        for name in ["a", "n", "x", "missing"] {
            assert_eq!(get(json, name), Err(CloudError::NoField), "{name}");
        }
        assert_eq!(get("{}", "id"), Err(CloudError::NoField));
    }

    #[test]
    fn what_is_not_json() {
        for json in [
            "",
            "[]",
            "<html>",
            "{",
            "{\"id\"",
            "{\"id\":",
            "{\"id\":\"",
            "{\"id\":\"\\",
            "{\"id\":\"\\u12\"}",
            "{\"id\":\"\\x\"}",
            "{\"a\":[1",
            "{\"a\":1 \"id\":\"x\"}",
            "{\"a\":,\"id\":\"x\"}",
            "{id:\"x\"}",
            "{\"a\"]\"id\"",
            "{\"id\":\"\\u+123\"}",
            "{\"id\":\"\\u\u{e9}12\"}",
        ] {
            assert_eq!(get(json, "id"), Err(CloudError::NotJson), "{json}");
        }
    }

    #[test]
    fn halves_of_pairs_and_what_does_not_fit() {
        assert_eq!(get(r#"{"id":"\ud83dx\ude00"}"#, "id").unwrap(), "x\u{fffd}");
        let mut buf = [0; 2];
        let mut text = Text::new(&mut buf);
        string(b"{\"id\":\"abc\"}", "id", &mut text).unwrap();
        assert!(text.is_cut());
    }

    #[test]
    fn no_input_makes_it_fail_otherwise() {
        let json = r#"{"a":[{"b":"\\\""},1.5],"id":"x\u00e9y"}"#.as_bytes();
        for cut in 0..json.len() {
            for byte in [b'"', b'\\', b'{', b']', 0xff, 0] {
                let mut broken = json.to_vec();
                broken[cut] = byte;
                let mut buf = [0; 8];
                let _ = string(&broken, "id", &mut Text::new(&mut buf));
                let _ = string(&broken[..cut], "id", &mut Text::new(&mut buf));
            }
        }
    }
}
