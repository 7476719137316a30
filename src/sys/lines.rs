//! Small text files, a line at a time; and those of a pattern.

use crate::sys::file::{File, Root};

/// Bytes of a line that are looked at: more than any line of `hosts`, `resolv.conf` or a lease needs.
const LINE_MAX: usize = 1024;

/// Bytes of a file that are looked at: a list of hosts that are not to be reached, as `/etc/hosts` may hold, has hundreds of KB. Read in
/// steps of a line's buffer this takes about a millisecond.
const FILE_MAX: usize = 1024 * 1024;

/// Files of a pattern that are read: more than a machine in an initramfs has interfaces with a lease.
const MATCHES_MAX: usize = 16;

/// Gives each file at `place` to `visit`, where a `*` is any part of the last name. Those that cannot be opened are left out.
pub fn files(root: &Root, place: &[u8], visit: &mut dyn FnMut(&File)) {
    let Some(star) = place.iter().position(|b| *b == b'*') else {
        if let Ok(file) = root.file(place) {
            visit(&file);
        }
        return;
    };
    let (start, end) = (place.get(..star).unwrap_or_default(), place.get(star.saturating_add(1)..).unwrap_or_default());
    let slash = start.iter().rposition(|b| *b == b'/').unwrap_or(0);
    let (folder, start) = start.split_at_checked(slash.saturating_add(1)).unwrap_or_default();
    let Ok(folder) = root.folder(folder) else { return };
    let mut left = MATCHES_MAX;
    // A folder that cannot be read further has no more files.
    let _ = folder.names(&mut |name| {
        if name.strip_prefix(start).is_some_and(|rest| rest.ends_with(end)) {
            left = left.saturating_sub(1);
            if let Ok(file) = folder.file(name) {
                visit(&file);
            }
        }
        left != 0
    });
}

/// Gives each line of `file` to `visit`, without its end. A longer line is cut, a file that cannot be read further ends there.
pub fn each(file: &File, visit: &mut dyn FnMut(&[u8])) {
    let mut buf = [0; LINE_MAX];
    let mut len = 0usize;
    let mut total = 0usize;
    let mut cut = false;
    while total < FILE_MAX {
        let read = buf.get_mut(len..).map_or(0, |free| file.read(free).unwrap_or(0));
        total = total.saturating_add(read);
        len = len.saturating_add(read);
        let mut rest = buf.get(..len).unwrap_or_default();
        while let Some(end) = rest.iter().position(|b| *b == b'\n') {
            let (line, next) = rest.split_at_checked(end).unwrap_or_default();
            if !core::mem::take(&mut cut) {
                visit(line.strip_suffix(b"\r").unwrap_or(line));
            }
            rest = next.get(1..).unwrap_or_default();
        }
        let kept = rest.len();
        if read == 0 || kept == LINE_MAX {
            if !core::mem::replace(&mut cut, true) && kept != 0 {
                // Half a word would be another one.
                let whole = rest.iter().rposition(u8::is_ascii_whitespace).filter(|_| read != 0);
                visit(rest.get(..whole.unwrap_or(kept)).unwrap_or_default());
            }
            len = 0;
            if read == 0 {
                return;
            }
        } else {
            buf.copy_within(len.saturating_sub(kept)..len, 0);
            len = kept;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::file::Root;

    fn lines(content: &[u8]) -> Vec<Vec<u8>> {
        let dir = std::env::temp_dir().join(format!("lines-{}-{:?}", std::process::id(), std::thread::current().id()));
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("f"), content).unwrap();
        let root = Root::new(Some(dir.to_str().unwrap().as_bytes())).unwrap();
        let mut all = Vec::new();
        each(&root.file("f").unwrap(), &mut |line| all.push(line.to_vec()));
        std::fs::remove_dir_all(&dir).unwrap();
        all
    }

    #[test]
    fn ends_and_last_line() {
        assert_eq!(lines(b""), Vec::<Vec<u8>>::new());
        assert_eq!(lines(b"a\n\nb\r\nc"), [&b"a"[..], b"", b"b", b"c"]);
    }

    #[test]
    fn long_lines_are_cut_and_large_files_end() {
        let long = [b'x'; 3 * LINE_MAX];
        let content = [b"one\n", &long[..], b"\ntwo\n"].concat();
        assert_eq!(lines(&content), [&b"one"[..], &long[..LINE_MAX], b"two"]);
        // A list that is cut ends with a whole word.
        let list =
            b"DNS=".iter().chain(b"192.0.2.123 ".iter().cycle().take(2 * LINE_MAX)).copied().collect::<Vec<u8>>();
        let cut = lines(&list);
        assert!(cut[0].ends_with(b" 192.0.2.123") && cut[0].len() > LINE_MAX - 13, "{cut:?}");
        assert_eq!(lines(&vec![b'\n'; 10 * FILE_MAX]).len(), FILE_MAX);
        assert_eq!(lines(&vec![0; 10 * FILE_MAX]).len(), 1);
    }
}
