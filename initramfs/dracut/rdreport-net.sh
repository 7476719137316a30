#!/bin/sh
# Hook cmdline, sourced by dracut: asks for the network when a report is to go out by it or somebody to come in, and only then.
for rdreport_key in rd.report.url= rd.report.journal= rd.report.fallback= rd.report.ssh= coreos.status.url=; do
    for rdreport_value in $(getargs "$rdreport_key"); do
        case $rdreport_value in
            file:* | vsock:*) ;;
            *) echo rd.neednet=1 > /etc/cmdline.d/05-rdreport.conf ;;
        esac
    done
done
unset rdreport_key rdreport_value
