//! Reads the text of single elements out of XML 1.0 that came from elsewhere: a scan over a bounded buffer for one element's name, its
//! prefix left out. The text stays escaped as it came, so that it can be sent on as it is.

use crate::error::CloudError;

/// Returns the text of the first element called `name`, up to the next tag.
pub fn text<'a>(xml: &'a [u8], name: &str) -> Result<&'a str, CloudError> {
    let mut rest = xml;
    let mut is_xml = false;
    while let Some(open) = rest.iter().position(|b| *b == b'<') {
        let tag = rest.get(open.saturating_add(1)..).unwrap_or_default();
        let end = tag.iter().position(|b| *b == b'>').ok_or(CloudError::NotXml)?;
        let (inside, behind) = tag.split_at_checked(end).unwrap_or_default();
        rest = behind.get(1..).unwrap_or_default();
        is_xml = true;
        let called = inside.split(|b| b.is_ascii_whitespace() || *b == b'/').next().unwrap_or_default();
        let called = called.rsplit(|b| *b == b':').next().unwrap_or_default();
        if called == name.as_bytes() {
            let text = rest.split(|b| *b == b'<').next().unwrap_or_default().trim_ascii();
            let text = core::str::from_utf8(text).map_err(|_| CloudError::NotXml)?;
            return if text.is_empty() { Err(CloudError::NoField) } else { Ok(text) };
        }
    }
    Err(if is_xml { CloudError::NoField } else { CloudError::NotXml })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements() {
        let xml = b"<?xml version=\"1.0\"?><G xmlns:a=\"x\"><Old/><a:Incarnation x='y'> 1 </a:Incarnation><C><Id>a&amp;b</Id></C></G>";
        assert_eq!(text(xml, "Incarnation"), Ok("1"));
        assert_eq!(text(xml, "Id"), Ok("a&amp;b"));
        for name in ["C", "Missing", "Old", "G"] {
            assert_eq!(text(xml, name), Err(CloudError::NoField), "{name}");
        }
        for broken in [&b""[..], b"{}", b"<", b"<G><Id", b"text"] {
            assert_eq!(text(broken, "Id"), Err(CloudError::NotXml));
        }
        assert_eq!(text(b"<Id>\xff</Id>", "Id"), Err(CloudError::NotXml));
        assert_eq!(text(b"<Id>abc", "Id"), Ok("abc"));
    }
}
