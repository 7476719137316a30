//! Command line words that are stored in the initramfs. dracut's `kernel_cmdline+=` writes them to
//! `/etc/cmdline.d/*.conf`, and its modules treat them as part of the kernel's command line. The
//! order is that of dracut's `getcmdline` (dracut-lib.sh): the files of that folder by name, then
//! `/etc/cmdline`, then the kernel's command line. The last value of a setting takes effect, so the
//! kernel's command line wins.

use crate::settings::Warnings;
use crate::sys::file::Root;
use heapless::{String, Vec};

/// Maximum size of all files together: twice the command line of most kernels.
pub const DRACUT_MAX: usize = 4096;
/// Maximum number of files, and of bytes in a name. dracut's own modules write at most ten files,
/// such as `95root-dev.conf`.
const FILES_MAX: usize = 24;
const NAME_MAX: usize = 48;

/// Reads the files into `buf` and returns the length. A NUL follows each line, so that an open
/// quote does not reach into the next line. A file that does not fit is skipped as a whole: half a
/// setting may mean something else.
pub fn read(root: &Root, buf: &mut [u8], warnings: &mut Warnings) -> usize {
    let mut names: Vec<String<NAME_MAX>, FILES_MAX> = Vec::new();
    let mut is_whole = true;
    let folder = root.folder("etc/cmdline.d");
    if let Ok(folder) = &folder {
        // A read error ends the list of files.
        let _ = folder.names(&mut |name| {
            let Some(name) = core::str::from_utf8(name).ok().filter(|name| name.ends_with(".conf")) else {
                return true;
            };
            if name.starts_with('.') {
                return true;
            }
            let at = names.iter().position(|other| other.as_str() > name).unwrap_or(names.len());
            let mut copy = String::new();
            is_whole &= copy.push_str(name).is_ok() && names.insert(at, copy).is_ok();
            true
        });
    }
    let mut len = 0;
    let mut take = |read: &mut dyn FnMut(&mut [u8]) -> Option<usize>| {
        let Some(free) = buf.get_mut(len..) else { return };
        let size = free.len();
        match read(free) {
            // A file that fills the buffer may have been truncated.
            Some(read) if read >= size => is_whole = false,
            Some(read) => {
                let end = read.saturating_add(1);
                let file = free.get_mut(..end).unwrap_or_default();
                file.iter_mut().filter(|byte| **byte == b'\n').for_each(|byte| *byte = 0);
                if let Some(last) = file.last_mut() {
                    *last = 0;
                }
                len = len.saturating_add(end);
            }
            None => {}
        }
    };
    if let Ok(folder) = &folder {
        for name in &names {
            take(&mut |free| folder.read(name.as_bytes(), free).ok().map(|text| text.len()));
        }
    }
    take(&mut |free| root.read("etc/cmdline", free).ok().map(|text| text.len()));
    if !is_whole {
        warnings.add(&["/etc/cmdline.d and /etc/cmdline hold more than 4096 bytes or 24 files; the rest is not read"]);
    }
    len
}
