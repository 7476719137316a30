#!/bin/bash
# dracut module: reports how the boot ended. For dracut 059 to dracut-ng, with systemd and without.

check() {
    require_binaries rdreport || return 1
    return 0
}

depends() {
    return 0
}

installkernel() {
    # What tells the hypervisor of a panic (rd.report.action=panic): some KB.
    hostonly='' instmods pvpanic-mmio pvpanic-pci
    # By which a report goes to Hyper-V's host, into the image of a machine that runs there.
    [[ ! $hostonly ]] || instmods hv_utils
}

install() {
    local unit wants file
    inst_binary rdreport /usr/bin/rdreport
    # Before all others: Fedora CoreOS' and Flatcar's own hooks (99) wait for a person or end the machine.
    inst_hook emergency 05 "$moddir/rdreport-failed.sh"
    inst_hook shutdown-emergency 05 "$moddir/rdreport-failed.sh"
    # Before the scripts that set up the network, which read what it asks for.
    inst_hook cmdline 05 "$moddir/rdreport-net.sh"
    if dracut_module_included systemd; then
        inst_simple "$moddir/rdreport-fallback.target" "$systemdsystemunitdir/rdreport-fallback.target"
        while read -r unit wants; do
            [[ $unit != *-ignition.service || -e $initdir/usr/bin/ignition ]] || continue
            inst_simple "$moddir/$unit" "$systemdsystemunitdir/$unit"
            mkdir -p "$initdir$systemdsystemunitdir/$wants.wants"
            ln_r "$systemdsystemunitdir/$unit" "$systemdsystemunitdir/$wants.wants/$unit"
        done << 'END'
rdreport-failed.service emergency.target
rdreport-succeeded.service initrd.target
rdreport-stuck.service sysinit.target
rdreport-fallback-ignition.service rdreport-fallback.target
rdreport-follow.service sysinit.target
END
        # Each stage of Ignition reports that it begins.
        if [[ -e $initdir/usr/bin/ignition ]]; then
            inst_simple "$moddir/rdreport-running@.service" "$systemdsystemunitdir/rdreport-running@.service"
            for file in "$moddir"/*.service.d/*.conf; do
                inst_simple "$file" "$systemdsystemunitdir${file#"$moddir"}"
            done
        fi
    else
        inst_hook cmdline 06 "$moddir/rdreport-stuck.sh"
        inst_hook cmdline 06 "$moddir/rdreport-follow.sh"
        # Behind the others of its kind, which may fail.
        inst_hook pre-pivot 99 "$moddir/rdreport-succeeded.sh"
    fi
}
