//! One more user in the account files of the initramfs: passwd(5), group(5) and shadow(5). Nobody who is in one of them is changed.
//!
//! Each file is written anew beside the old one and takes its place at once, owner and mode kept; a symbolic link in its place becomes a
//! file, and what it led to stays as it is. passwd, which makes a user of all of it, is the last: a run that was killed before leaves
//! entries that nobody can use, and the next one goes on from there.

use crate::sys::Errno;
use crate::sys::file::{Access, File, Folder, Root};
use crate::sys::machine::Keys;
use crate::sys::time::Deadline;
use crate::text::{self, DECIMAL_MAX, decimal};
use alloc::vec;
use alloc::vec::Vec;

/// Bytes of a file that is changed: a thousand users. That of an initramfs has a few lines.
const TABLE_MAX: usize = 64 * 1024;
/// Bytes by which a file may grow: our line, and our name in a group.
const NEW_MAX: usize = 512;
/// Numbers that are tried, from the first of people on (login.defs(5), `UID_MIN`).
const IDS: core::ops::Range<u32> = 1000..2000;
/// Who is in this group may read the journal (systemd-journald.service(8)).
const JOURNAL_GROUP: &[u8] = b"systemd-journal";
/// What lckpwdf(3) locks.
const LOCK: &str = ".pwd.lock";
/// Milliseconds between two tries for the lock, and how many there are: who holds it has a line or two to write.
const LOCK_MS: u64 = 100;
const LOCK_TRIES: u32 = 20;
/// Milliseconds that a file may take to be written; nothing waits for anything there.
const WRITE_MS: u64 = 1_000;

/// A password that no text matches. One that begins with `!` would lock the account, for keys as well (OpenSSH's `LOCKED_PASSWD_PREFIX`,
/// where there is no PAM).
const NO_PASSWORD: &str = "*";

/// Why nobody was added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotAdded {
    /// There is such a user or group, in this file.
    Exists(&'static str),
    /// All numbers are taken.
    NoId,
    /// This file is larger than what is read.
    TooLarge(&'static str),
    /// This file cannot be read or written.
    File(&'static str, Errno),
}

/// Whom to add.
pub struct User<'a> {
    /// Name; see [`is_name`].
    pub name: &'a str,
    /// Path of the home, which is for the caller to make.
    pub home: &'a str,
    /// Path of the shell.
    pub shell: &'a str,
}

/// The files as they are, locked against others that change them (lckpwdf(3)).
pub struct Accounts {
    etc: Folder,
    passwd: Table,
    group: Table,
    /// None where there is none: the password then stands in passwd, and what others say of it stays true.
    shadow: Option<Table>,
    _lock: File,
}

/// What the files say of a user.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// It is there, just as it would be added.
    Taken,
    /// It can be added, with this number for user and group.
    Free(u32),
}

impl Accounts {
    /// Locks and reads them.
    pub fn open(root: &Root) -> Result<Self, NotAdded> {
        let etc = root.folder("etc").map_err(|e| NotAdded::File("", e))?;
        let lock = lock(root).map_err(|e| NotAdded::File(LOCK, e))?;
        let missing = |name| Table { name, content: Vec::new(), access: Access { uid: 0, gid: 0, mode: 0o644 } };
        Ok(Self {
            etc,
            passwd: Table::read(root, "passwd", "etc/passwd")?.unwrap_or_else(|| missing("passwd")),
            group: Table::read(root, "group", "etc/group")?.unwrap_or_else(|| missing("group")),
            shadow: Table::read(root, "shadow", "etc/shadow")?,
            _lock: lock,
        })
    }

    /// Finds a place for `user`. An entry as we would write it is that of an earlier run of ours.
    pub fn place(&self, user: &User<'_>) -> Result<Place, NotAdded> {
        if let Some(shadow) = &self.shadow
            && shadow.of(user.name).is_some_and(|entry| !is_made_of(entry, &shadow_line(user)))
        {
            return Err(NotAdded::Exists("shadow"));
        }
        let mut number = [0; DECIMAL_MAX];
        let is_free = |id: u32| {
            !self.passwd.entries().any(|entry| number_of(entry, 2) == Some(id) || number_of(entry, 3) == Some(id))
        };
        match (self.passwd.of(user.name), self.group.of(user.name)) {
            (None, None) => {
                let in_group = |id| self.group.entries().any(|entry| number_of(entry, 2) == Some(id));
                IDS.into_iter().find(|id| is_free(*id) && !in_group(*id)).map(Place::Free).ok_or(NotAdded::NoId)
            }
            (Some(_), None) => Err(NotAdded::Exists("passwd")),
            (entry, Some(group)) => {
                let id = number_of(group, 2).filter(|id| IDS.contains(id)).ok_or(NotAdded::Exists("group"))?;
                let number = decimal(id.into(), &mut number);
                let is_ours = is_made_of(group, &group_line(user, number));
                match entry {
                    Some(entry) if is_ours && is_made_of(entry, &self.passwd_line(user, number)) => Ok(Place::Taken),
                    Some(_) => Err(NotAdded::Exists("passwd")),
                    None if is_ours && is_free(id) => Ok(Place::Free(id)),
                    None => Err(NotAdded::Exists("group")),
                }
            }
        }
    }

    /// Adds `user` with the number of a [`Place::Free`].
    pub fn add(&self, user: &User<'_>, id: u32) -> Result<(), NotAdded> {
        let mut number = [0; DECIMAL_MAX];
        let number = decimal(id.into(), &mut number);
        if let Some(shadow) = &self.shadow {
            shadow.add(&self.etc, user, &shadow_line(user))?;
        }
        self.group.add(&self.etc, user, &group_line(user, number))?;
        self.passwd.add(&self.etc, user, &self.passwd_line(user, number))
    }

    fn passwd_line<'a>(&self, user: &User<'a>, number: &'a str) -> [&'a str; 11] {
        let password = if self.shadow.is_some() { "x" } else { NO_PASSWORD };
        [user.name, ":", password, ":", number, ":", number, ":rdreport:", user.home, ":", user.shell]
    }
}

fn group_line<'a>(user: &User<'a>, number: &'a str) -> [&'a str; 4] {
    [user.name, ":x:", number, ":"]
}

fn shadow_line<'a>(user: &User<'a>) -> [&'a str; 4] {
    [user.name, ":", NO_PASSWORD, ":::::::"]
}

/// Takes the lock, and waits for it a while.
fn lock(root: &Root) -> Result<File, Errno> {
    let mut path = heapless::String::<16>::new();
    let _ = path.push_str("etc/").and_then(|()| path.push_str(LOCK));
    let file = root.append(&*path)?;
    for _ in 0..LOCK_TRIES {
        match file.lock_record() {
            Err(Errno::AGAIN | Errno::ACCESS) => Keys::none().pressed(Deadline::after_ms(LOCK_MS)),
            locked => return locked.map(|()| file),
        };
    }
    Err(Errno::AGAIN)
}

/// A file of lines of fields with colons between them.
struct Table {
    name: &'static str,
    content: Vec<u8>,
    access: Access,
}

impl Table {
    fn read(root: &Root, name: &'static str, path: &str) -> Result<Option<Self>, NotAdded> {
        let broken = |e| NotAdded::File(name, e);
        let file = match root.file(path) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(e) => return Err(broken(e)),
        };
        let size = usize::try_from(file.size().map_err(broken)?).unwrap_or(usize::MAX);
        if size > TABLE_MAX || !file.is_regular().map_err(broken)? {
            return Err(NotAdded::TooLarge(name));
        }
        let mut content = vec![0; size];
        let len = file.read_at(0, &mut content).map_err(broken)?;
        content.truncate(len);
        Ok(Some(Self { name, content, access: file.access().map_err(broken)? }))
    }

    fn entries(&self) -> impl Iterator<Item = &[u8]> {
        self.content.split(|b| *b == b'\n').filter(|entry| !entry.is_empty())
    }

    /// The first entry of this name: what counts to those who read it.
    fn of(&self, name: &str) -> Option<&[u8]> {
        self.entries().find(|entry| field(entry, 0) == name.as_bytes())
    }

    /// Puts a line behind the others, unless an earlier run has done so; a group that may read the journal gets a member then.
    fn add(&self, etc: &Folder, user: &User<'_>, line: &[&str]) -> Result<(), NotAdded> {
        if self.of(user.name).is_some() {
            return Ok(());
        }
        let mut content = Vec::with_capacity(self.content.len().saturating_add(NEW_MAX));
        for entry in self.entries() {
            content.extend_from_slice(entry);
            if field(entry, 0) == JOURNAL_GROUP && self.name == "group" {
                content.extend_from_slice(if field(entry, 3).is_empty() { b"" } else { b"," });
                content.extend_from_slice(user.name.as_bytes());
            }
            content.push(b'\n');
        }
        line.iter().for_each(|part| content.extend_from_slice(part.as_bytes()));
        content.push(b'\n');
        replace(etc, self.name.as_bytes(), &content, &self.access).map_err(|e| NotAdded::File(self.name, e))
    }
}

/// Puts a file into the place of the one called `name`; that one stays until the new one is whole.
fn replace(folder: &Folder, name: &[u8], content: &[u8], access: &Access) -> Result<(), Errno> {
    let mut new = heapless::Vec::<u8, 32>::from_slice(name).unwrap_or_default();
    let _ = new.extend_from_slice(b".rdreport");
    // What an earlier run left behind when it was killed.
    let _ = folder.remove(&new);
    let done = folder.new_file(&new, 0o600).and_then(|file| {
        file.write(content, Deadline::after_ms(WRITE_MS))?;
        file.give(access)?;
        folder.rename(&new, name)
    });
    if done.is_err() {
        let _ = folder.remove(&new);
    }
    done
}

/// The field of this number.
fn field(entry: &[u8], number: usize) -> &[u8] {
    entry.split(|b| *b == b':').nth(number).unwrap_or_default()
}

fn number_of(entry: &[u8], number: usize) -> Option<u32> {
    text::number(field(entry, number))
}

/// Whether it is just these parts.
fn is_made_of(entry: &[u8], parts: &[&str]) -> bool {
    parts.iter().try_fold(entry, |rest, part| rest.strip_prefix(part.as_bytes())).is_some_and(<[u8]>::is_empty)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::ssh_key::is_name;

    #[test]
    fn names() {
        for name in ["core", "_x", "a-b_9", &"a".repeat(31)] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", "root", "-a", "9a", "A", "a:b", "a b", "a\nb", "a/b", "..", "\u{e9}", "a$", &"a".repeat(32)] {
            assert!(!is_name(name), "{name}");
        }
    }

    struct Machine(std::path::PathBuf);

    impl Machine {
        fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let path = std::env::temp_dir().join(std::format!("rdreport-accounts-{name}-{}", std::process::id()));
            std::fs::create_dir_all(path.join("etc")).unwrap();
            for (name, content) in files {
                std::fs::write(path.join("etc").join(name), content).unwrap();
            }
            Self(path)
        }

        fn open(&self) -> Accounts {
            Accounts::open(&Root::new(Some(self.0.to_str().unwrap().as_bytes())).unwrap()).ok().unwrap()
        }

        fn read(&self, name: &str) -> String {
            std::fs::read_to_string(self.0.join("etc").join(name)).unwrap()
        }
    }

    impl Drop for Machine {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    const USER: User<'_> = User { name: "me", home: "/home/me", shell: "/bin/sh" };
    const PASSWD: &str = "root:x:0:0::/:/bin/sh\n";
    const GROUP: &str = "root:x:0:\nsystemd-journal:x:99:a";

    #[test]
    fn the_lowest_free_number() {
        for (passwd, group, place) in [
            ("", "", Ok(Place::Free(1000))),
            ("a:x:1000:5::/:", "b:x:1002:", Ok(Place::Free(1001))),
            ("a:x:5:1000::/:\nb:x:1001:1001::/:\n", "b:x:1002:", Ok(Place::Free(1003))),
            ("\n:::\na\nmex:x:1000:1::/:\n", "", Ok(Place::Free(1001))),
            ("", "me:x:1007:", Ok(Place::Free(1007))),
            ("a:x:1007:1:::", "me:x:1007:", Err(NotAdded::Exists("group"))),
            ("", "me:x:1007:a", Err(NotAdded::Exists("group"))),
            ("", "me:x:10:", Err(NotAdded::Exists("group"))),
            ("", "me:x:01007:", Err(NotAdded::Exists("group"))),
            ("me:*:1000:1000:rdreport:/home/me:/bin/sh", "me:x:1000:", Ok(Place::Taken)),
            ("me:*:1000:1000:rdreport:/home/me:/bin/sh", "", Err(NotAdded::Exists("passwd"))),
            ("me:x:1000:1000:rdreport:/home/me:/bin/sh", "me:x:1000:", Err(NotAdded::Exists("passwd"))),
            ("me:*:1000:1000:me:/home/me:/bin/sh", "me:x:1000:", Err(NotAdded::Exists("passwd"))),
            ("me", "me:x:1000:", Err(NotAdded::Exists("passwd"))),
        ] {
            let machine = Machine::new("place", &[("passwd", passwd), ("group", group)]);
            assert_eq!(machine.open().place(&USER), place, "{passwd} {group}");
        }
        let all: String = IDS.map(|id| std::format!("u{id}:x:{id}:{id}:::\n")).collect();
        let machine = Machine::new("full", &[("passwd", &all)]);
        assert_eq!(machine.open().place(&USER), Err(NotAdded::NoId));
    }

    #[test]
    fn what_is_written() {
        let machine = Machine::new("write", &[("passwd", PASSWD), ("group", GROUP), ("shadow", "root:!::0:::::\n")]);
        let accounts = machine.open();
        assert_eq!(accounts.place(&USER), Ok(Place::Free(1000)));
        accounts.add(&USER, 1000).unwrap();
        assert_eq!(machine.read("passwd"), std::format!("{PASSWD}me:x:1000:1000:rdreport:/home/me:/bin/sh\n"));
        assert_eq!(machine.read("group"), std::format!("{GROUP},me\nme:x:1000:\n"));
        assert_eq!(machine.read("shadow"), "root:!::0:::::\nme:*:::::::\n");
        assert_eq!(machine.open().place(&USER), Ok(Place::Taken));
        // A run that was killed before the last step.
        std::fs::write(machine.0.join("etc/passwd"), PASSWD).unwrap();
        let accounts = machine.open();
        assert_eq!(accounts.place(&USER), Ok(Place::Free(1000)));
        accounts.add(&USER, 1000).unwrap();
        assert_eq!(machine.read("group"), std::format!("{GROUP},me\nme:x:1000:\n"));
        assert_eq!(machine.open().place(&USER), Ok(Place::Taken));
        std::fs::write(machine.0.join("etc/shadow"), "me:!:::::::\n").unwrap();
        assert_eq!(machine.open().place(&USER), Err(NotAdded::Exists("shadow")));
    }
}
