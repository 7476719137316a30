//! lld's link map: which part of which object file went where. Columns `VMA LMA Size Align`, then the output section, the input section
//! (`FILE:(SECTION)`) or the symbol, told apart by indentation. <https://lld.llvm.org>, `-Map`.

/// One input section as it lies in the output.
#[derive(Debug, PartialEq)]
pub struct Input<'m> {
    pub address: u64,
    pub size: u64,
    /// An object file, `ARCHIVE(MEMBER)`, or `<internal>` for what the linker itself made or merged.
    pub file: &'m str,
    pub section: &'m str,
}

/// The indentation of an input section, after the space that follows the last number.
const INPUT_INDENT: usize = 8;

/// All input sections that have a size and an address, in the map's order. Lines of any other shape (output sections, symbols,
/// assignments) are passed over: that nothing is missing is checked later, against the file's size.
pub fn parse(map: &str) -> Vec<Input<'_>> {
    map.lines().filter_map(input).filter(|i| i.size > 0 && i.address > 0).collect()
}

fn input(line: &str) -> Option<Input<'_>> {
    let (address, rest) = number(line)?;
    let (_, rest) = number(rest)?;
    let (size, rest) = number(rest)?;
    let (_, rest) = number(rest)?;
    let rest = rest.strip_prefix(' ')?;
    let name = rest.trim_start_matches(' ');
    if rest.len() - name.len() != INPUT_INDENT {
        return None;
    }
    let (file, section) = name.strip_suffix(')')?.rsplit_once(":(")?;
    Some(Input { address, size, file, section })
}

/// A hexadecimal number and what follows it. The alignment is decimal, and not used.
fn number(text: &str) -> Option<(u64, &str)> {
    let text = text.trim_start_matches(' ');
    let (digits, rest) = text.split_at(text.find(' ')?);
    Some((u64::from_str_radix(digits, 16).ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAP: &str = "             VMA              LMA     Size Align Out     In      Symbol
          201170           201170      70d    16 .text
          201170           201170        3     1         /t/deps/rdreport-64.cgu.0.rcgu.o:(.text.main)
          201170           201170        3     1                 main
          2011c0           2011c0      228    16         /t/out/libc.a(__libc_start_main.lo):(.text.__init_libc)
          201400           201400        0     1         /t/empty.o:(.text)
          201420           201420      190    16         <internal>:(.rodata.cst16)
          201430           201430        8     1         . = ALIGN ( 8 )
               0                0      148     1         <internal>:(.strtab)
";

    #[test]
    fn input_sections_only() {
        let found = parse(MAP);
        let want = [
            (0x201170, 3, "/t/deps/rdreport-64.cgu.0.rcgu.o", ".text.main"),
            (0x2011c0, 0x228, "/t/out/libc.a(__libc_start_main.lo)", ".text.__init_libc"),
            (0x201420, 0x190, "<internal>", ".rodata.cst16"),
        ];
        let want = want.map(|(address, size, file, section)| Input { address, size, file, section });
        assert_eq!(found, want);
    }

    #[test]
    fn rubbish_is_no_input() {
        assert!(parse("").is_empty());
        assert!(parse("zz 1 1 1         a:(b)\n1 2 3\n1 2 3 4\n1 2 3 4         a:(b").is_empty());
    }
}
