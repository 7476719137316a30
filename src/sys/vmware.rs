//! VMware's hypervisor port ("backdoor"): an I/O port that its hypervisor takes from any program, and that elsewhere ends the program that
//! touches it. So the hypervisor is asked for its name first (CPUID leaf 0x40000000).

/// Registers that go to the hypervisor and come back.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Registers {
    /// EBX.
    pub b: u32,
    /// ECX.
    pub c: u32,
    /// EDX; the port is in its lower half.
    pub d: u32,
    /// ESI.
    pub si: u32,
    /// EDI.
    pub di: u32,
}

/// The port.
pub const PORT: u32 = 0x5658;

/// A hypervisor that is VMware's.
pub struct Hypervisor(());

#[cfg(target_arch = "x86_64")]
impl Hypervisor {
    /// The one that this program runs under, if it is VMware's.
    pub fn find() -> Option<Self> {
        use core::arch::x86_64::__cpuid;
        /// Bit of leaf 1, ECX, that says that there is a hypervisor.
        const PRESENT: u32 = 1 << 31;
        /// The leaf with its name.
        const NAME: u32 = 0x4000_0000;
        if __cpuid(1).ecx & PRESENT == 0 {
            return None;
        }
        let name = __cpuid(NAME);
        let is_it = [name.ebx, name.ecx, name.edx].map(u32::to_le_bytes).as_flattened() == b"VMwareVMware";
        is_it.then_some(Self(()))
    }

    /// Calls the hypervisor.
    pub fn call(&mut self, registers: Registers) -> Registers {
        /// What it knows a call by, in EAX.
        const MAGIC: u32 = 0x564d_5868;
        let mut b = u64::from(registers.b);
        let Registers { mut c, mut d, mut si, mut di, .. } = registers;
        d = d & 0xffff_0000 | PORT;
        // SAFETY: there is a value of this type only where the hypervisor is VMware's, which takes the instruction from any program, reads
        // these registers and writes nothing but them. RBX, which the compiler keeps for itself, is as it was afterwards.
        unsafe {
            core::arch::asm!(
                "xchg rbx, {b}",
                "in eax, dx",
                "xchg rbx, {b}",
                b = inout(reg) b,
                inout("eax") MAGIC => _,
                inout("ecx") c,
                inout("edx") d,
                inout("esi") si,
                inout("edi") di,
                options(nostack, nomem),
            );
        }
        Registers { b: b as u32, c, d, si, di }
    }
}

#[cfg(not(target_arch = "x86_64"))]
impl Hypervisor {
    /// Other processors have no such port.
    pub fn find() -> Option<Self> {
        None
    }

    /// Never called, since none is found.
    pub fn call(&mut self, registers: Registers) -> Registers {
        registers
    }
}
