//! Names whose values are secrets, for the journal.
//!
//! A name is compared by its end, in any case, without `_`, `-` and `.`: `db-password`,
//! `DB_PASSWORD` and `dbPassword` are equal, while `password_file` and `token_type` name no secret.

/// Number of bytes of a name that are compared. Only the end of a longer name counts.
const NAME_MAX: usize = 40;

/// Secrecy of the value of a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Secrecy {
    /// The name does not suggest a secret.
    Open,
    /// The value is a secret if it looks like one: the name has other uses, too.
    Likely,
    /// The value is a secret, unless it is a word like `none` or a path.
    Secret,
    /// The rest of the line is a secret: a header field's value, or several words.
    Header,
}

/// Returns the words that names end with, by their last two letters. The mark after a word
/// classifies the value: `!` secret, `?` likely a secret, `:` a header field's value, `.` no secret
/// although a shorter word matches, `+` classified by the name without this word. A word with a
/// leading `_` must be a word of its own, not the end of another.
const fn words(before: u8, last: u8) -> &'static str {
    match &[before, last] {
        b"al" => "credential! loadcredential. importcredential.",
        b"as" => "_sas?",
        b"de" => "passcode! _authcode?",
        b"ed" => "_cred! _encrypted+ _seed?",
        b"en" => "token!",
        b"er" => "bearer!",
        b"et" => "secret!",
        b"ey" => {
            "apikey! privatekey! privkey! secretkey! accesskey! sharedkey! accountkey! authkey! masterkey! encryptionkey! signingkey! certificatekey! sessionkey! storagekey! joinkey! unsealkey! recoverykey! licensekey! deploykey! clientkey! passkey! _key? publickey. pubkey. sshkey. hostkey. hotkey."
        }
        b"id" => "secretid! _sessionid? _sid?",
        b"ie" => "cookie:",
        b"ig" => "_sig?",
        b"in" => "_plain+",
        b"ng" => "_connectionstring?",
        b"on" => "authorization: _session?",
        b"pw" => "_pw! rootpw! sshpw!",
        b"rd" => "password!",
        b"re" => "_signature?",
        b"rf" => "_csrf?",
        b"rt" => "passwort!",
        b"ry" => "_binary+",
        b"se" => "passphrase: _base+",
        b"sh" => "_hash+",
        b"sk" => "_psk:",
        b"ss" => "_pass! dbpass! rootpass! requirepass!",
        b"ta" => "_data+ _userdata? _customdata?",
        b"th" => "_auth?",
        b"tp" => "_otp!",
        b"ue" => "_value+",
        b"wd" => "passwd! _pwd! chpasswd.",
        b"wt" => "_jwt!",
        b"xt" => "_text+",
        _ => "",
    }
}

/// Whether a name that ends with these two bytes can match. Most names cannot, which saves the full
/// comparison.
pub fn may_end(before: u8, last: u8) -> bool {
    let (before, last) = (before.to_ascii_lowercase(), last.to_ascii_lowercase());
    !words(before, last).is_empty() || last == b's' && matches!(before, b'd' | b'e' | b'l' | b'n' | b't' | b'y')
}

/// A name in lower case, last letter first.
struct Name {
    letters: heapless::Vec<u8, NAME_MAX, u8>,
    /// Bit `n` is set if a word begins at letter `n`.
    begins: u64,
}

impl Name {
    fn new(bytes: &[u8]) -> Self {
        let mut name = Self { letters: heapless::Vec::new(), begins: 0 };
        let mut bytes = bytes;
        while let Some((byte, rest)) = bytes.split_last() {
            let before = rest.last().copied().unwrap_or(0);
            bytes = rest;
            // Digits at the end only number the names: `password2`.
            if name.letters.is_empty() && byte.is_ascii_digit() {
                continue;
            }
            if !byte.is_ascii_alphanumeric() {
                continue;
            }
            let is_start = !before.is_ascii_alphabetic() || byte.is_ascii_uppercase() && before.is_ascii_lowercase();
            name.begins |= u64::from(is_start) << name.letters.len();
            if name.letters.push(byte.to_ascii_lowercase()).is_err() {
                break;
            }
        }
        name
    }

    /// Returns the secrecy of the value.
    fn secrecy(&self) -> Secrecy {
        let mut from = 0;
        loop {
            let (end, mark) = self.longest_word(from);
            from = match mark {
                b'!' => return Secrecy::Secret,
                b':' => return Secrecy::Header,
                // A plain `key` occurs in any map.
                b'?' if &*self.letters != b"yek" => return Secrecy::Likely,
                b'+' => end,
                // A plural.
                0 if from == 0 && self.letters.first() == Some(&b's') => 1,
                _ => return Secrecy::Open,
            };
        }
    }

    /// Returns the start and the mark of the longest word that the name, without its last `from`
    /// letters, ends with. The mark is 0 if there is none.
    fn longest_word(&self, from: usize) -> (usize, u8) {
        let letters = self.letters.get(from..).unwrap_or_default();
        let [last, before, ..] = letters else { return (0, 0) };
        let mut longest = (0, 0);
        let mut words = words(*before, *last).as_bytes();
        while let Some((mark, rest)) = words.split_last() {
            let len = rest.iter().rev().take_while(|b| b.is_ascii_lowercase()).count();
            let (before, word) = rest.split_at_checked(rest.len().saturating_sub(len)).unwrap_or_default();
            let end = from.saturating_add(len);
            let is_word = letters.get(..len).is_some_and(|letters| letters.iter().eq(word.iter().rev()));
            if is_word && len > 0 && end > longest.0 && (before.last() != Some(&b'_') || self.begins_at(end)) {
                longest = (end, *mark);
            }
            words = before;
        }
        longest
    }

    /// Whether the match of letters up to `end`, read backwards, is a word of its own.
    fn begins_at(&self, end: usize) -> bool {
        end.checked_sub(1).is_some_and(|last| self.begins >> last & 1 != 0)
    }
}

/// Returns the secrecy of the value of the name in `bytes`.
pub fn secrecy(bytes: &[u8]) -> Secrecy {
    Name::new(bytes).secrecy()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets() {
        for (names, expected) in [
            (
                "password Password2 DB_PASSWORD db-password dbPassword plain_text_passwd AWS_SECRET_ACCESS_KEY K3S_TOKEN clientSecret \
                 X-Api-Key PrivateKey PresharedKey passwordHash tokens credentials db_pass dbPass AccountKey \
                 systemd.set_credential rd.report.maas.token secret_id token_value root.pw",
                Secrecy::Secret,
            ),
            (
                "Authorization proxy-authorization Cookie set-cookie cookies psk wpa-psk LUKS_PASSPHRASE",
                Secrecy::Header,
            ),
            ("auth sig X-Amz-Signature session_id user-data server_key signature", Secrecy::Likely),
            (
                "MESSAGE password_file token_type key public_key ssh-key bypass compass pwdx author LoadCredential chpasswd tokenizer \
                 _SYSTEMD_UNIT a 1 -",
                Secrecy::Open,
            ),
        ] {
            for name in names.split_ascii_whitespace() {
                assert_eq!(secrecy(name.as_bytes()), expected, "{name}");
                let [.., before, last] = name.trim_end_matches(|c: char| c.is_ascii_digit()).as_bytes() else {
                    continue;
                };
                assert!(expected == Secrecy::Open || may_end(*before, *last), "{name}");
            }
        }
        assert!(!may_end(b'g', b'e') && !may_end(b'1', b'2') && !may_end(0xff, b'n'));
    }
}
