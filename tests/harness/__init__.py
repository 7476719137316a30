"""What the tests of the whole binary share."""
from harness.journal import parse_export
from harness.netns import INSIDE, InNamespace
from harness.pki import Pki
from harness.root import BINARY, FIXTURES, HERE, MACHINE, PATIENCE, Root, children_of, most_kb, resident_kb, sample
from harness.server import Connection, OK, Request, Server
