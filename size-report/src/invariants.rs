//! What must hold of the shipped file whatever its size: it is static, keeps memory either writable or executable, and tells nothing
//! about the machine it was built on.

use std::path::Path;

use memchr::memmem;

use crate::elf::Elf;

/// Sections that a stripped, static, non-unwinding program has no use for.
const NEEDLESS_SECTIONS: [&str; 9] = [
    ".eh_frame",
    ".eh_frame_hdr",
    ".gcc_except_table",
    ".symtab",
    ".strtab",
    ".dynsym",
    ".dynamic",
    ".interp",
    ".comment",
];
const NEEDLESS_SEGMENTS: [&str; 3] = ["INTERP", "DYNAMIC", "GNU_EH_FRAME"];
/// Parts of paths in which sources of dependencies lie.
const SOURCE_PATHS: [&str; 3] = ["/registry/src/", "/.cargo/", "/git/checkouts/"];

/// One line for each thing that is wrong; and how many things were looked at.
pub struct Findings {
    pub wrong: Vec<String>,
    pub checked: usize,
}

/// `private` are paths of this machine that must not be in the file: workspace, home, cargo's home.
pub fn check(elf: &Elf, private: &[&Path]) -> Findings {
    let mut checks: Vec<(bool, String)> = Vec::new();
    for name in NEEDLESS_SEGMENTS {
        checks.push((elf.segments.iter().all(|s| s.name() != name), format!("there is a segment {name}")));
    }
    for name in NEEDLESS_SECTIONS {
        checks.push((elf.sections.iter().all(|s| s.name != name), format!("there is a section {name}")));
    }
    checks.push((elf.symbols.is_empty(), "there are symbols".into()));
    let both = elf.segments.iter().any(|s| s.write && s.execute);
    checks.push((!both, "a segment is both writable and executable".into()));
    // Without the header the kernel gives an executable stack.
    let stacks: Vec<_> = elf.segments.iter().filter(|s| s.is_stack()).collect();
    checks.push((stacks.len() == 1 && !stacks[0].execute, "the stack is executable".into()));
    for path in private.iter().filter(|p| p.components().count() > 1) {
        let text = path.to_string_lossy();
        checks.push((!holds(elf, &text), format!("the path {text} is in the file")));
    }
    for part in SOURCE_PATHS {
        checks.push((!holds(elf, part), format!("a path with {part} is in the file")));
    }
    let checked = checks.len();
    let wrong = checks.into_iter().filter(|(right, _)| !right).map(|(_, what)| what).collect();
    Findings { wrong, checked }
}

fn holds(elf: &Elf, text: &str) -> bool {
    memmem::find(elf.bytes, text.as_bytes()).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf::Segment;

    fn segment(kind: u32, write: bool, execute: bool) -> Segment {
        Segment { kind, offset: 0, address: 0, file_size: 0, memory_size: 0, align: 0, write, execute }
    }

    fn wrong(bytes: &[u8], segments: Vec<Segment>) -> Vec<String> {
        let elf = Elf { bytes, sections: vec![], segments, symbols: vec![], headers: [(0, 0); 3] };
        check(&elf, &[Path::new("/home/me/rdreport"), Path::new("/")]).wrong
    }

    const STACK: u32 = 0x6474_e551;

    #[test]
    fn a_good_file() {
        let none: [&str; 0] = [];
        assert_eq!(
            wrong(b"hello /", vec![segment(1, false, true), segment(1, true, false), segment(STACK, true, false)]),
            none
        );
    }

    #[test]
    fn bad_segments() {
        assert_eq!(wrong(b"", vec![segment(STACK, true, true)]).len(), 2);
        assert_eq!(wrong(b"", vec![]), ["the stack is executable"]);
        let interpreter =
            wrong(b"", vec![segment(3, false, false), segment(2, true, false), segment(STACK, true, false)]);
        assert_eq!(interpreter, ["there is a segment INTERP", "there is a segment DYNAMIC"]);
    }

    /// The test program itself: dynamic, with symbols and unwind tables.
    #[test]
    fn a_program_that_is_nothing_of_the_kind() {
        let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let wrong = check(&Elf::parse(&bytes).unwrap(), &[]).wrong;
        for what in [
            "there is a segment INTERP",
            "there is a segment DYNAMIC",
            "there is a section .eh_frame",
            "there are symbols",
        ] {
            assert!(wrong.iter().any(|w| w == what), "{what}: {wrong:?}");
        }
    }

    #[test]
    fn paths_of_the_build_machine() {
        let paths = wrong(b"\0/home/me/rdreport/src\0/x/registry/src/y", vec![segment(STACK, true, false)]);
        assert_eq!(paths, ["the path /home/me/rdreport is in the file", "a path with /registry/src/ is in the file"]);
    }
}
