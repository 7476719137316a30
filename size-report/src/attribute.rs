//! Every byte of the shipped file, given to an owner: a crate, musl, or what the format itself takes. The sum is the file's size, checked.
//!
//! The link map says which object file and which section each part comes from. Rust puts each function and constant into a section named
//! after it, so the section's name leads to the crate ([`crate::symbol`], [`crate::constants`]); other objects are known by their file.

use std::collections::BTreeMap;

use crate::constants;
use crate::elf::{Elf, Section};
use crate::map::Input;
use crate::symbol;

pub const MUSL: &str = "musl";
pub const ROOTS: &str = "webpki_roots";
/// Owners in brackets are not code that anybody wrote.
pub const HEADERS: &str = "[ELF headers]";
pub const PADDING: &str = "[padding]";
pub const LINKER: &str = "[linker tables]";
pub const UNNAMED: &str = "[unnamed constants]";
/// Bytes that are neither in the map nor zero: there should be none.
pub const UNKNOWN: &str = "[unknown]";
/// The section that the map's linker-made parts are in.
const INTERNAL: &str = "<internal>";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Code,
    Constant,
    Data,
    Overhead,
}

/// A range of the shipped file.
#[derive(Clone, Debug, PartialEq)]
pub struct Piece {
    pub start: u64,
    pub end: u64,
    pub owner: String,
    pub name: String,
    pub kind: Kind,
}

impl Piece {
    pub fn size(&self) -> u64 {
        self.end - self.start
    }
}

/// What else has to be known to find owners.
pub struct Sources<'s> {
    /// The crate that names without a path belong to (`main`).
    pub root_crate: &'s str,
    /// From [`constants::owners`].
    pub constants: &'s BTreeMap<String, String>,
    /// The root certificates' public keys.
    pub roots: &'s [Vec<u8>],
}

/// `shipped` and `unstripped` are the same in memory; the latter has the symbols. The pieces are in order, without gap or overlap.
pub fn attribute(shipped: &Elf, unstripped: &Elf, map: &[Input], sources: &Sources) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    for (start, end) in shipped.headers {
        pieces.push(overhead(start, end, HEADERS, "ELF header, program headers, section headers"));
    }
    for section in shipped.sections.iter().filter(|s| !s.data.is_empty()) {
        if !section.alloc {
            pieces.push(overhead(section.offset, section.offset + section.data.len() as u64, HEADERS, section.name));
            continue;
        }
        let end = section.address + section.data.len() as u64;
        for input in map.iter().filter(|i| i.address >= section.address && i.address + i.size <= end) {
            match input.file {
                INTERNAL => pieces.extend(linker_made(input, section, unstripped, sources)),
                _ => pieces.push(from_object(input, section, sources)),
            }
        }
    }
    find_roots(&mut pieces, shipped, sources);
    complete(pieces, shipped.bytes)
}

fn overhead(start: u64, end: u64, owner: &str, name: &str) -> Piece {
    Piece { start, end, owner: owner.into(), name: name.into(), kind: Kind::Overhead }
}

fn piece(address: u64, size: u64, section: &Section, (owner, name): (String, String)) -> Piece {
    let start = section.offset + (address - section.address);
    let kind = match section {
        Section { execute: true, .. } => Kind::Code,
        Section { write: true, .. } => Kind::Data,
        _ => Kind::Constant,
    };
    Piece { start, end: start + size, owner, name, kind }
}

fn from_object(input: &Input, section: &Section, sources: &Sources) -> Piece {
    piece(input.address, input.size, section, owner(input, sources))
}

fn owner(input: &Input, sources: &Sources) -> (String, String) {
    let (path, member) = input.file.strip_suffix(')').and_then(|f| f.rsplit_once('(')).unwrap_or((input.file, ""));
    let file = path.rsplit('/').next().unwrap_or(path);
    let symbol = symbol_of_section(input.section);
    // Objects of musl end in `.lo`, those of its start code are called crt*.o.
    if member.ends_with(".lo") || (file.starts_with("crt") && file.ends_with(".o")) {
        let object = if member.is_empty() { file } else { member.trim_end_matches(".lo") };
        return (MUSL.into(), named(symbol.unwrap_or(object)));
    }
    let native =
        constants::crate_of_library(path.as_ref()).filter(|_| symbol.is_none_or(|s| symbol::owner(s).is_none()));
    match native {
        // C or assembly that a crate brings, or the compiler's builtins
        Some(krate) => (krate.into(), named(symbol.unwrap_or(member))),
        None => of_symbol(symbol.unwrap_or(input.section), sources),
    }
}

/// Owner and readable name of something in a Rust object file.
fn of_symbol(name: &str, sources: &Sources) -> (String, String) {
    if let Some(hash) = constants::hash(name) {
        let owner = sources.constants.get(hash).map_or(UNNAMED, |o| o);
        return (owner.into(), format!("constant {}", name.trim_start_matches(".L")));
    }
    if let Some(function) = name.strip_prefix(".Lswitch.table.") {
        let (owner, name) = of_symbol(without_number(function), sources);
        return (owner, format!("table of {name}"));
    }
    if name.starts_with(".L") || name.is_empty() {
        return (UNNAMED.into(), name.to_owned());
    }
    let owner = match symbol::owner(name) {
        // The symbols that rustc makes for the allocator
        Some(owner) if owner == "__rustc" => sources.root_crate.to_owned(),
        Some(owner) => owner,
        None => sources.root_crate.to_owned(),
    };
    (owner, named(name))
}

fn named(symbol: &str) -> String {
    symbol::readable(symbol).unwrap_or_else(|| symbol.to_owned())
}

/// LLVM tells copies apart by a number at the end.
fn without_number(name: &str) -> &str {
    match name.rsplit_once('.') {
        Some((front, number)) if number.bytes().all(|b| b.is_ascii_digit()) => front,
        _ => name,
    }
}

/// `.text.unlikely._ZN…` is `_ZN…`; `.text` is nothing.
fn symbol_of_section(section: &str) -> Option<&str> {
    const PREFIXES: [&str; 8] =
        [".text.unlikely.", ".text.hot.", ".text.startup.", ".text.", ".rodata.", ".data.rel.ro.", ".data.", ".tdata."];
    PREFIXES.iter().find_map(|p| section.strip_prefix(p)).filter(|s| !s.is_empty())
}

/// Parts that the linker made (the GOT) or merged from many objects (equal constants); of the latter the symbols tell more.
fn linker_made(input: &Input, section: &Section, unstripped: &Elf, sources: &Sources) -> Vec<Piece> {
    let end = input.address + input.size;
    if !input.section.starts_with(".rodata") {
        return vec![piece(input.address, input.size, section, (LINKER.into(), input.section.into()))];
    }
    // The longest name at an address says most, and takes the place of musl's `.LC0`.
    let mut symbols: Vec<_> =
        unstripped.symbols.iter().filter(|s| (input.address..end).contains(&s.address) && !s.name.is_empty()).collect();
    symbols.sort_by_key(|s| (s.address, std::cmp::Reverse((s.name.len(), s.name))));
    symbols.dedup_by_key(|s| s.address);
    let mut pieces = Vec::new();
    let mut at = input.address;
    for (i, s) in symbols.iter().enumerate() {
        if s.address > at {
            pieces.push(piece(at, s.address - at, section, (UNNAMED.into(), input.section.into())));
        }
        let next = symbols.get(i + 1).map_or(end, |next| next.address);
        at = if s.size == 0 { next } else { next.min(s.address + s.size) };
        pieces.push(piece(s.address, at - s.address, section, of_symbol(s.name, sources)));
    }
    if at < end {
        pieces.push(piece(at, end - at, section, (UNNAMED.into(), input.section.into())));
    }
    pieces
}

/// The root certificates are bytes of ours, which the build script made of those of `webpki-roots`; they are known by their contents.
fn find_roots(pieces: &mut [Piece], shipped: &Elf, sources: &Sources) {
    for piece in pieces.iter_mut().filter(|p| p.kind == Kind::Constant) {
        let bytes = shipped.bytes.get(piece.start as usize..piece.end as usize).unwrap_or_default();
        if !sources.roots.is_empty() && sources.roots.iter().all(|key| memchr::memmem::find(bytes, key).is_some()) {
            (piece.owner, piece.name) = (ROOTS.into(), "names and keys of the root certificates".into());
        }
    }
}

/// Fills the gaps. Between parts the linker writes zeros, or traps (0xcc) in code.
fn complete(mut pieces: Vec<Piece>, bytes: &[u8]) -> Result<Vec<Piece>, String> {
    pieces.retain(|p| p.size() > 0);
    pieces.sort_by_key(|p| (p.start, p.end));
    let mut whole: Vec<Piece> = Vec::with_capacity(pieces.len() * 2);
    let mut at = 0;
    let end = bytes.len() as u64;
    for piece in pieces.into_iter().chain([overhead(end, end, PADDING, "")]) {
        if piece.start < at {
            let before = whole.last().map_or("", |p| &*p.name);
            return Err(format!("two parts at offset {:#x} of the file: {before} and {}", piece.start, piece.name));
        }
        if piece.start > at {
            let gap = bytes
                .get(at as usize..piece.start as usize)
                .ok_or(format!("{} lies beyond the file's end", piece.name))?;
            let empty = gap.iter().all(|b| matches!(b, 0 | 0xcc));
            whole.push(overhead(at, piece.start, if empty { PADDING } else { UNKNOWN }, "between parts"));
        }
        at = piece.end;
        if piece.size() > 0 {
            whole.push(piece);
        }
    }
    let sum: u64 = whole.iter().map(Piece::size).sum();
    if sum != end || at != end {
        return Err(format!("the parts are {sum} bytes, the file is {end}"));
    }
    Ok(whole)
}

/// The public keys of Mozilla's root certificates.
pub fn root_keys() -> Vec<Vec<u8>> {
    webpki_roots::TLS_SERVER_ROOTS.iter().map(|root| root.subject_public_key_info.to_vec()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(file: &str, section: &str) -> (String, String) {
        let constants = BTreeMap::from([("0455bfe9a05cda098c5e3520443d1fb7".to_owned(), "ring".to_owned())]);
        let sources = Sources { root_crate: "rdreport", constants: &constants, roots: &[] };
        owner(&Input { address: 1, size: 1, file, section }, &sources)
    }

    fn is(file: &str, section: &str, owner: &str, name: &str) {
        assert_eq!(owned(file, section), (owner.to_owned(), name.to_owned()));
    }

    #[test]
    fn objects_of_musl_are_known_by_their_file() {
        is("/out/libc.a(malloc.lo)", ".text.malloc", MUSL, "malloc");
        is("/out/libc.a(memcpy.lo)", ".text", MUSL, "memcpy");
        is("/usr/lib/x86_64-linux-musl/crt1.o", ".text._start_c", MUSL, "_start_c");
        is("/rustlib/lib/liblibc-12.rlib(exit.lo)", ".text.exit", MUSL, "exit");
    }

    #[test]
    fn native_code_belongs_to_the_crate_that_brings_it() {
        is("/d/libring-eb.rlib(b9-curve25519.o)", ".rodata.Bi", "ring", "Bi");
        is("/d/libcompiler_builtins-1.rlib(x.o)", ".text", "compiler_builtins", "x.o");
        is(
            "/d/libcore-1.rlib(y.o)",
            ".text._ZN8rdreport3run4main17h37582c5c02a8354fE",
            "rdreport",
            "rdreport::run::main",
        );
    }

    #[test]
    fn rust_code_belongs_to_its_crate() {
        let object = "/t/rdreport-1.cgu.0.rcgu.o";
        is(object, ".text._ZN4ring4aead7aes_gcm4open17hef5e4841cf3ed14aE", "ring", "ring::aead::aes_gcm::open");
        is(
            object,
            ".text.unlikely._ZN4ring4aead7aes_gcm4open17hef5e4841cf3ed14aE",
            "ring",
            "ring::aead::aes_gcm::open",
        );
        is(object, ".text.main", "rdreport", "main");
        is(
            object,
            ".rodata..Lanon.0455bfe9a05cda098c5e3520443d1fb7.3",
            "ring",
            "constant anon.0455bfe9a05cda098c5e3520443d1fb7.3",
        );
        is(
            object,
            ".rodata..Lanon.1455bfe9a05cda098c5e3520443d1fb7.3",
            UNNAMED,
            "constant anon.1455bfe9a05cda098c5e3520443d1fb7.3",
        );
        let table = ".rodata..Lswitch.table._ZN4ring4aead7aes_gcm4open17hef5e4841cf3ed14aE.14";
        is(object, table, "ring", "table of ring::aead::aes_gcm::open");
    }

    fn part(start: u64, end: u64) -> Piece {
        Piece { start, end, owner: "a".into(), name: "b".into(), kind: Kind::Code }
    }

    #[test]
    fn gaps_are_padding_only_if_they_are_empty() {
        let whole = complete(vec![part(4, 6), part(0, 2)], &[1, 1, 0, 0xcc, 1, 1, 7]).unwrap();
        let owners: Vec<_> = whole.iter().map(|p| (&*p.owner, p.size())).collect();
        assert_eq!(owners, [("a", 2), (PADDING, 2), ("a", 2), (UNKNOWN, 1)]);
    }

    #[test]
    fn no_byte_has_two_owners() {
        assert!(complete(vec![part(0, 3), part(2, 4)], &[0; 4]).is_err());
    }

    #[test]
    fn nothing_beyond_the_end() {
        assert!(complete(vec![part(0, 5)], &[0; 4]).is_err());
        assert!(complete(vec![part(5, 6)], &[0; 4]).is_err());
    }
}
