//! Credentials that systemd keeps for the initramfs or the system (systemd.exec(5), "Credentials").

use crate::sys::file::Root;

/// Folders of systemd's credentials. Credentials of the initramfs take precedence.
const FOLDERS: [&str; 2] = ["run/credentials/@initrd/", "run/credentials/@system/"];
/// Maximum length of a credential's name (`CREDENTIAL_NAME_MAX`, that of a file name).
const NAME_MAX: usize = 255;

/// Reads the credential `name` into the buffer, truncated to its size.
pub fn read<'b>(root: &Root, name: &str, buf: &'b mut [u8]) -> Result<&'b [u8], &'static str> {
    if name.is_empty() || name.starts_with('.') || name.as_bytes().contains(&b'/') || name.len() > NAME_MAX {
        return Err("no credential can have this name");
    }
    for folder in FOLDERS {
        let mut path: heapless::String<{ FOLDERS[0].len() + NAME_MAX }> = heapless::String::new();
        if path.push_str(folder).is_ok() && path.push_str(name).is_ok() && root.file(&*path).is_ok() {
            return root.read(&*path, buf).map_err(|_| "its credential cannot be read");
        }
    }
    Err("no such credential in /run/credentials/@initrd or /run/credentials/@system")
}
