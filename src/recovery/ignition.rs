//! SSH keys out of an Ignition configuration (JSON, RFC 8259): the strings of `passwd.users[].sshAuthorizedKeys`, which are there in all
//! versions of it from 2.0.0 on. The file goes through a window, byte by byte, and nothing of it is kept but the string at hand, so its
//! size does not matter; brackets are counted, not gone into.

use crate::escape::unjson;
use crate::settings::ssh_key::{LINE_MAX, PublicKey};
use crate::sys::file::{File, Root};
use crate::text::Text;
use heapless::{String, Vec};

/// Bytes of a configuration that are read: a second or so. Ignition itself keeps all of it in memory, several times.
const CONFIG_MAX: u64 = 16 << 20;
/// Bytes of the window.
const WINDOW: usize = 4096;
/// Brackets that may be open at once, each a bit. A configuration has fewer than ten.
const DEPTH_MAX: u32 = u64::BITS;
/// Configurations of an image that are read.
pub const FILES_MAX: usize = 16;
/// Bytes of a path.
const PATH_MAX: usize = 192;

/// The containers that lead to the strings, from the outermost on: whether it is an object, and the name of the member that it is.
const PATH: [(bool, &str); 5] =
    [(true, ""), (true, "passwd"), (false, "users"), (true, ""), (false, "sshAuthorizedKeys")];

/// The configurations that the initramfs holds: the one that Ignition has fetched and put together (`/run/ignition.json`), and those that it
/// starts from, of the distribution and of the owner (`internal/distro` and `internal/providers/system` of its source), for the platform
/// of this name.
pub fn configurations(root: &Root, platform: &str) -> Vec<File, FILES_MAX> {
    let mut files: Vec<File, FILES_MAX> = root.file("run/ignition.json").into_iter().collect();
    // In a path it would lead elsewhere.
    let platform = if platform.as_bytes().contains(&b'/') { "" } else { platform };
    for top in ["usr/lib/ignition/", "etc/ignition/"] {
        for (folder, platform) in [("", ""), ("base.d/", ""), ("base.platform.d/", platform)] {
            let path = |name: &str| {
                let mut path: String<PATH_MAX> = String::new();
                // One that does not fit leads nowhere.
                match [top, folder, platform, "/", name].iter().try_for_each(|part| path.push_str(part)) {
                    Ok(()) => path,
                    Err(_) => String::new(),
                }
            };
            let Ok(folder) = root.folder(&*path("")) else { continue };
            let _ = folder.names(&mut |name| match core::str::from_utf8(name).map(|name| root.file(&*path(name))) {
                Ok(Ok(file)) if name.ends_with(b".ign") => files.push(file).is_ok(),
                _ => true,
            });
        }
    }
    files
}

/// Gives each string that stands where a key does to `found`: the key, or `None` for what is none. What is no JSON ends it, with all that
/// stands before; then, and where the file cannot be read to its end, this is false.
pub fn keys(file: &File, found: &mut dyn FnMut(Option<PublicKey<'_>>)) -> bool {
    let mut scan = Scan::default();
    let mut buf = [0; WINDOW];
    let mut left = CONFIG_MAX;
    while let Ok(len @ 1..) = file.read(&mut buf) {
        left = left.saturating_sub(len as u64);
        if left == 0 || !buf.get(..len).unwrap_or_default().iter().all(|byte| scan.take(*byte, found)) {
            return false;
        }
    }
    scan.is_whole()
}

/// What may come next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    /// A value; the end of an array that is empty so far.
    Value { or_end: bool },
    /// A member's name; the end of an object that is empty so far.
    Name { or_end: bool },
    /// The colon behind a name.
    Colon,
    /// More of a string.
    Text { is_name: bool, is_escaped: bool },
    /// More of a number, `true`, `false`, `null`.
    Word,
    /// A comma, or an end.
    Behind,
}

/// How far the configuration has been read.
pub struct Scan {
    next: Next,
    /// For each open container, the innermost lowest, whether it is an object.
    objects: u64,
    depth: u32,
    /// How many of the open containers, from the outermost on, are those of [`PATH`].
    on_path: u32,
    /// Whether the last member's name was that of [`PATH`].
    leads_on: bool,
    /// The string that is being read, escapes and all, and whether there was no room for it.
    text: Vec<u8, LINE_MAX>,
    is_long: bool,
}

impl Default for Scan {
    fn default() -> Self {
        Self {
            next: Next::Value { or_end: false },
            objects: 0,
            depth: 0,
            on_path: 0,
            leads_on: false,
            text: Vec::new(),
            is_long: false,
        }
    }
}

impl Scan {
    /// Takes the next byte; false if that cannot stand there.
    pub fn take(&mut self, byte: u8, found: &mut dyn FnMut(Option<PublicKey<'_>>)) -> bool {
        if let Next::Text { is_name, is_escaped } = self.next {
            match byte {
                b'"' if !is_escaped => self.end_text(is_name, found),
                _ => {
                    self.is_long |= self.text.push(byte).is_err();
                    self.next = Next::Text { is_name, is_escaped: byte == b'\\' && !is_escaped };
                }
            }
            return true;
        }
        let is_word = byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
        if self.next == Next::Word {
            if is_word {
                return true;
            }
            self.next = Next::Behind;
        }
        if byte.is_ascii_whitespace() {
            return true;
        }
        self.next = match (self.next, byte) {
            (Next::Value { .. }, b'"') => self.text(false),
            (Next::Name { .. }, b'"') => self.text(true),
            (Next::Value { .. }, b'{' | b'[') => return self.open(byte == b'{'),
            (Next::Value { .. }, _) if is_word => Next::Word,
            (Next::Colon, b':') => Next::Value { or_end: false },
            (Next::Behind, b',') if self.depth > 0 => match self.objects & 1 {
                0 => Next::Value { or_end: false },
                _ => Next::Name { or_end: false },
            },
            (Next::Value { or_end: true } | Next::Name { or_end: true } | Next::Behind, b']' | b'}') => {
                return self.close(byte == b'}');
            }
            _ => return false,
        };
        true
    }

    /// Whether what was read is all of a value.
    pub fn is_whole(&self) -> bool {
        self.depth == 0 && matches!(self.next, Next::Behind | Next::Word)
    }

    fn text(&mut self, is_name: bool) -> Next {
        self.text.clear();
        self.is_long = false;
        Next::Text { is_name, is_escaped: false }
    }

    fn end_text(&mut self, is_name: bool, found: &mut dyn FnMut(Option<PublicKey<'_>>)) {
        self.next = if is_name { Next::Colon } else { Next::Behind };
        if is_name {
            let name = PATH.get(self.depth as usize).map_or("", |(_, name)| *name);
            self.leads_on = self.on_path == self.depth && name.as_bytes() == self.text.as_slice();
        } else if self.depth as usize == PATH.len() && self.on_path == self.depth {
            let mut line = [0; LINE_MAX];
            let mut line = Text::new(&mut line);
            let is_text = !self.is_long && unjson(&self.text, &mut line).is_some();
            found(PublicKey::parse(line.as_str()).filter(|_| is_text));
        }
    }

    fn open(&mut self, is_object: bool) -> bool {
        let place = PATH.get(self.depth as usize).filter(|_| self.on_path == self.depth);
        if place.is_some_and(|(object, name)| *object == is_object && (name.is_empty() || self.leads_on)) {
            self.on_path = self.on_path.saturating_add(1);
        }
        self.objects = self.objects << 1 | u64::from(is_object);
        self.depth = self.depth.saturating_add(1);
        self.next = if is_object { Next::Name { or_end: true } } else { Next::Value { or_end: true } };
        self.depth <= DEPTH_MAX
    }

    fn close(&mut self, is_object: bool) -> bool {
        if self.depth == 0 || is_object != (self.objects & 1 == 1) {
            return false;
        }
        self.objects >>= 1;
        self.depth = self.depth.saturating_sub(1);
        self.on_path = self.on_path.min(self.depth);
        self.next = Next::Behind;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAjddpofL4tDQZr+zaaJ9bb2jmpPBcVYuxWC0VYleMM6";

    /// The strings in the place of keys, and whether the configuration was whole.
    fn read(config: &str) -> (std::vec::Vec<Option<std::string::String>>, bool) {
        let (mut all, mut scan) = (std::vec::Vec::new(), Scan::default());
        let mut found = |key: Option<PublicKey<'_>>| all.push(key.map(|key| key.line.to_owned()));
        let is_json = config.bytes().all(|byte| scan.take(byte, &mut found));
        (all, is_json && scan.is_whole())
    }

    #[test]
    fn keys_of_all_users() {
        let config = format!(
            r#" {{"ignition":{{"version":"3.4.0"}}, "storage":{{"files":[{{"path":"/a","contents":{{"source":"data:,\"]}}"}},"mode":420}}]}},
            "passwd" : {{ "users" : [ {{"name":"a","sshAuthorizedKeys":["{KEY} a","{KEY} \u00e9\\\"\/"], "groups":["x"]}}, {{}},
            {{"sshAuthorizedKeys":[],"uid":-1.5e3,"system":true}}, {{ "passwordHash":null,"sshAuthorizedKeys" : [ "\n{}\n" , "no" ] }} ] , "groups":[]}} }} "#,
            KEY.replace('+', "\\u002b")
        );
        let (keys, is_whole) = read(&config);
        assert!(is_whole);
        let expected = [format!("{KEY} a"), format!("{KEY} \u{e9}\\\"/"), KEY.into()];
        assert_eq!(keys, [expected.map(Some).as_slice(), &[None]].concat());
    }

    #[test]
    fn other_places_hold_no_keys() {
        for config in [
            r#"{"users":[{"sshAuthorizedKeys":["KEY"]}]}"#,
            r#"{"passwd":[{"users":[{"sshAuthorizedKeys":["KEY"]}]}]}"#,
            r#"{"passwd":{"users":{"sshAuthorizedKeys":["KEY"]}}}"#,
            r#"{"passwd":{"users":[{"sshAuthorizedKeys":"KEY"}]}}"#,
            r#"{"passwd":{"users":[{"sshAuthorizedKeys":{"a":"KEY"}}]}}"#,
            r#"{"passwd":{"users":[{"sshAuthorizedKeys":[["KEY"]]}]}}"#,
            r#"{"passwd":{"users":[[{"sshAuthorizedKeys":["KEY"]}]]}}"#,
            r#"{"passwd":{"users":[{"name":["KEY"],"sshAuthorizedKeys":null,"x":["KEY"]}]}}"#,
            r#"{"x":{"passwd":{"users":[{"sshAuthorizedKeys":["KEY"]}]}}}"#,
            r#"{"passwd":1,"x":{"users":[{"sshAuthorizedKeys":["KEY"]}]}}"#,
            r#"{"passwd":{"users":[],"x":[{"sshAuthorizedKeys":["KEY"]}]}}"#,
            r#"[{"passwd":{"users":[{"sshAuthorizedKeys":["KEY"]}]}}]"#,
            r#"{"passwd":{"users":[{"sshAuthorizedKeys":[{"KEY":"KEY"},1,true]}]}}"#,
            r#"{"passwd":{"x":{"users":[{"sshAuthorizedKeys":["KEY"]}]}}}"#,
        ] {
            assert_eq!(read(&config.replace("KEY", KEY)), (std::vec::Vec::new(), true), "{config}");
        }
    }

    #[test]
    fn broken_configurations_give_what_stands_before() {
        let whole = format!(r#"{{"passwd":{{"users":[{{"sshAuthorizedKeys":["{KEY}"]}}]}}}}"#);
        let end = whole.find(KEY).unwrap() + KEY.len() + 1;
        for len in 0..whole.len() {
            let (keys, is_whole) = read(&whole[..len]);
            assert_eq!((keys.len(), is_whole), (usize::from(len >= end), false), "{len}");
        }
        for config in [
            "",
            "{",
            "[",
            "]",
            "}",
            "{]",
            "[}",
            "{,}",
            "[,]",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\" 1}",
            "[1 2]",
            "{a:1}",
            "[1]]",
            "[1],",
            "1 2",
            "{\"a\":1,}",
            "[1,]",
            "\"a\"b",
            "[?]",
            "{}{}",
        ] {
            assert!(!read(config).1, "{config}");
        }
        for config in ["{}", "[]", " [ [ ] , { } ] ", "1", "\"\\\"\"", "{\"a\":{\"b\":[]},\"c\":-1e+5}"] {
            assert!(read(config).1, "{config}");
        }
    }

    #[test]
    fn what_is_too_long_or_too_deep() {
        let long = "x".repeat(LINE_MAX);
        let config = |name: &str, key: &str| {
            format!(r#"{{"{name}":0,"passwd":{{"users":[{{"sshAuthorizedKeys":["{key}","{KEY}"]}}]}}}}"#)
        };
        assert_eq!(read(&config(&long, &format!("{KEY} {long}"))), (vec![None, Some(KEY.into())], true));
        let deep = |depth: usize| read(&format!("{}{}", "[".repeat(depth), "]".repeat(depth))).1;
        assert_eq!([deep(64), deep(65), deep(70_000)], [true, false, false]);
    }
}
