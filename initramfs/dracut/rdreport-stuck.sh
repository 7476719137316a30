#!/bin/sh
# Hook cmdline, sourced by dracut where there is no systemd: the watchdog, which ends by itself.
if getarg rd.report.stuck= > /dev/null && [ ! -e /run/coreos/secure-execution ]; then
    rdreport stuck --wait < /dev/null &
fi
