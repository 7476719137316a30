//! Credentials that systemd keeps for the initramfs or the system (systemd.exec(5), "Credentials").

use crate::sys::file::Root;

/// Folders in which systemd keeps credentials: those of the initramfs go first.
const FOLDERS: [&str; 2] = ["run/credentials/@initrd/", "run/credentials/@system/"];
/// Longest name of a credential (`CREDENTIAL_NAME_MAX` is a file's name).
const NAME_MAX: usize = 255;

/// Reads the credential `name`, as much as fits; or says why that cannot be done.
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
