//! What the report needs of an ELF file: sections, segments, symbols. 64-bit, little-endian, as all of our targets are.
//! <https://refspecs.linuxfoundation.org/elf/gabi4+/contents.html>

use object::LittleEndian;
use object::elf::{FileHeader64, PF_W, PF_X, PT_GNU_STACK, SHF_ALLOC, SHF_EXECINSTR, SHF_WRITE, SHT_NOBITS};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, Sym};

/// A parsed file; borrows its bytes.
pub struct Elf<'d> {
    pub bytes: &'d [u8],
    pub sections: Vec<Section<'d>>,
    pub segments: Vec<Segment>,
    pub symbols: Vec<Symbol<'d>>,
    /// File ranges of the ELF header, the program headers and the section headers.
    pub headers: [(u64, u64); 3],
}

#[derive(PartialEq)]
pub struct Section<'d> {
    pub name: &'d str,
    pub address: u64,
    pub offset: u64,
    /// Bytes in memory; those in the file are `data.len()`.
    pub size: u64,
    pub align: u64,
    pub alloc: bool,
    pub write: bool,
    pub execute: bool,
    pub data: &'d [u8],
}

#[derive(PartialEq)]
pub struct Segment {
    /// `p_type`
    pub kind: u32,
    pub offset: u64,
    pub address: u64,
    pub file_size: u64,
    pub memory_size: u64,
    pub align: u64,
    pub write: bool,
    pub execute: bool,
}

pub struct Symbol<'d> {
    pub name: &'d str,
    pub address: u64,
    pub size: u64,
}

impl<'d> Elf<'d> {
    pub fn parse(bytes: &'d [u8]) -> Result<Self, String> {
        Self::read(bytes).map_err(|e| format!("not a 64-bit little-endian ELF file: {e}"))
    }

    fn read(bytes: &'d [u8]) -> object::read::Result<Self> {
        let le = LittleEndian;
        let header = FileHeader64::<LittleEndian>::parse(bytes)?;
        header.endian()?;
        let table = header.sections(le, bytes)?;
        let mut sections = Vec::new();
        for s in table.iter().skip(1) {
            let flags = s.sh_flags(le);
            sections.push(Section {
                name: text(table.section_name(le, s)?),
                address: s.sh_addr(le),
                offset: s.sh_offset(le),
                size: s.sh_size(le),
                align: s.sh_addralign(le),
                alloc: flags.contains(SHF_ALLOC),
                write: flags.contains(SHF_WRITE),
                execute: flags.contains(SHF_EXECINSTR),
                data: if s.sh_type(le) == SHT_NOBITS { &[] } else { s.data(le, bytes)? },
            });
        }
        let programs = header.program_headers(le, bytes)?;
        let segments = programs.iter().map(|p| Segment {
            kind: p.p_type(le).0,
            offset: p.p_offset(le),
            address: p.p_vaddr(le),
            file_size: p.p_filesz(le),
            memory_size: p.p_memsz(le),
            align: p.p_align(le),
            write: p.p_flags(le).contains(PF_W),
            execute: p.p_flags(le).contains(PF_X),
        });
        let table = table.symbols(le, bytes, object::elf::SHT_SYMTAB)?;
        let mut symbols = Vec::new();
        for s in table.iter() {
            symbols.push(Symbol {
                name: text(table.symbol_name(le, s)?),
                address: s.st_value(le),
                size: s.st_size(le),
            });
        }
        let at = |offset: u64, each: u16, count: usize| (offset, offset + u64::from(each) * count as u64);
        let headers = [
            at(0, header.e_ehsize(le), 1),
            at(header.e_phoff(le), header.e_phentsize(le), programs.len()),
            at(header.e_shoff(le), header.e_shentsize(le), sections.len() + 1),
        ];
        Ok(Elf { bytes, segments: segments.collect(), sections, symbols, headers })
    }

    /// The sections that are loaded into memory, `.bss` included.
    pub fn loaded(&self) -> impl Iterator<Item = &Section<'d>> {
        self.sections.iter().filter(|s| s.alloc)
    }
}

impl Segment {
    pub fn name(&self) -> String {
        match self.kind {
            1 => "LOAD".into(),
            2 => "DYNAMIC".into(),
            3 => "INTERP".into(),
            4 => "NOTE".into(),
            6 => "PHDR".into(),
            7 => "TLS".into(),
            0x6474_e550 => "GNU_EH_FRAME".into(),
            0x6474_e551 => "GNU_STACK".into(),
            0x6474_e552 => "GNU_RELRO".into(),
            other => format!("{other:#x}"),
        }
    }

    pub fn is_stack(&self) -> bool {
        self.kind == PT_GNU_STACK.0
    }
}

/// Why the two files are not the same program in memory; `None` when they are. Only what is loaded counts.
pub fn difference(a: &Elf, b: &Elf) -> Option<String> {
    let names = |e: &Elf| e.loaded().map(|s| s.name.to_owned()).collect::<Vec<_>>();
    if names(a) != names(b) {
        return Some(format!("sections {:?} and {:?}", names(a), names(b)));
    }
    if let Some((s, _)) = a.loaded().zip(b.loaded()).find(|(s, t)| s != t) {
        return Some(format!("section {}", s.name));
    }
    let differ = a.segments.len() != b.segments.len() || a.segments.iter().zip(&b.segments).any(|(s, t)| s != t);
    differ.then(|| "program headers".to_owned())
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or("(not UTF-8)")
}
