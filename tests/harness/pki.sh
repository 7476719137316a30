#!/bin/sh
# Makes the certificates that the TLS tests need, in the folder given: NAME.pem (with its chain) and NAME.key.
# All that should be trusted hangs from ca.pem, rsaca.pem or p384ca.pem; all are for localhost, 127.0.0.1 and ::1 unless said.
set -eu
cd "$1"
exec 2> pki.log

cat > pki.cnf <<'END'
[ca]
default_ca = any
[any]
database = index.txt
new_certs_dir = .
rand_serial = yes
default_md = sha256
policy = any_policy
unique_subject = no
[any_policy]
commonName = supplied
[req]
distinguished_name = dn
[dn]
[root]
basicConstraints = critical,CA:TRUE
keyUsage = critical,keyCertSign
subjectKeyIdentifier = hash
[server]
basicConstraints = CA:FALSE
subjectAltName = DNS:localhost,IP:127.0.0.1,IP:::1
[other]
basicConstraints = CA:FALSE
subjectAltName = DNS:other.example,DNS:*.wild.example
[nosan]
basicConstraints = CA:FALSE
[client]
basicConstraints = CA:FALSE
extendedKeyUsage = clientAuth
subjectAltName = DNS:localhost
[asca]
basicConstraints = CA:TRUE
subjectAltName = DNS:localhost
[critical]
basicConstraints = CA:FALSE
subjectAltName = DNS:localhost
1.2.3.4.5 = critical,DER:0500
[notca]
basicConstraints = CA:FALSE
[pathlen]
basicConstraints = critical,CA:TRUE,pathlen:0
[onlycorp]
basicConstraints = critical,CA:TRUE
nameConstraints = critical,permitted;DNS:corp.example
[directory]
basicConstraints = critical,CA:TRUE
nameConstraints = critical,permitted;dirName:corp
[corp]
organizationName = corp
END
: > index.txt

key() { # NAME KIND
    case $2 in
    rsa) openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out "$1.key" ;;
    *) openssl genpkey -algorithm EC -pkeyopt "ec_paramgen_curve:$2" -out "$1.key" ;;
    esac
}
root() { # NAME KIND CN [EXTENSIONS]
    key "$1" "$2"
    openssl req -x509 -new -key "$1.key" -subj "/CN=$3" -days 30 -config pki.cnf -extensions "${4:-root}" -out "$1.pem"
}
# NAME KEY ISSUER CN EXTENSIONS [openssl ca's arguments]
leaf() {
    name=$1 keyname=$2 issuer=$3 cn=$4 extensions=$5
    shift 5
    [ "$name" = "$keyname" ] || cp "$keyname.key" "$name.key"
    openssl req -new -key "$name.key" -subj "/CN=$cn" -config pki.cnf -out "$name.csr"
    [ $# -gt 0 ] || set -- -days 30
    openssl ca -batch -notext -config pki.cnf -cert "$issuer.pem" -keyfile "$issuer.key" -extensions "$extensions" \
        -in "$name.csr" -out "$name.pem" "$@"
}

root ca P-256 "test root"
root rsaca rsa "test RSA root"
root p384ca P-384 "test P-384 root"
root stranger P-256 "unknown root"
root self P-256 "self signed" server

key rsa rsa
key p256 P-256
key p384 P-384
leaf rsa rsa rsaca localhost server
leaf p256 p256 ca localhost server
leaf p384 p384 p384ca localhost server -md sha384 -days 30
leaf rsa512 rsa rsaca localhost server -md sha512 -days 30
leaf rsapss rsa rsaca localhost server -sigopt rsa_padding_mode:pss -sigopt rsa_pss_saltlen:digest -days 30
leaf p256by384 p256 p384ca localhost server -md sha256 -days 30
leaf expired p256 ca localhost server -startdate 20200101000000Z -enddate 20200102030405Z
leaf future p256 ca localhost server -startdate 21200101000000Z -enddate 21300101000000Z
leaf otherfuture p256 ca other.example other -startdate 21200101000000Z -enddate 21300101000000Z
leaf other p256 ca other.example other
leaf nosan p256 ca localhost nosan
leaf unknown p256 stranger localhost server
leaf client p256 ca "test client" client
leaf clientrsa rsa ca "test RSA client" client
openssl ec -in client.key -out client-sec1.key
openssl rsa -in clientrsa.key -traditional -out clientrsa-pkcs1.key

# A chain: root, intermediate, server.
key inter P-384
leaf inter inter ca "test intermediate" root
leaf chained p256 inter localhost server
cat inter.pem >> chained.pem
# One whose intermediate is over.
leaf oldinter inter ca "old intermediate" root -startdate 20200101000000Z -enddate 20200102030405Z
leaf oldchain p256 oldinter localhost server
cat oldinter.pem >> oldchain.pem

# Signed by itself, and a CA, as `openssl req -x509` makes it unless told otherwise.
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout selfca.key -subj /CN=localhost -days 30 \
    -addext subjectAltName=DNS:localhost -out selfca.pem
# X.509 version 1: without extensions.
v1() { # NAME ISSUER
    openssl req -new -key p256.key -subj /CN=localhost -config pki.cnf -out "$1.csr"
    cp p256.key "$1.key"
    openssl x509 -req -in "$1.csr" -CA "$2.pem" -CAkey "$2.key" -set_serial 7 -days 30 -out "$1.pem"
    openssl x509 -in "$1.pem" -noout -text | grep -q 'Version: 1'
}
v1 v1 ca
openssl req -new -key ca.key -subj "/CN=root of version 1" -config pki.cnf -out v1ca.csr
cp ca.key v1ca.key
openssl x509 -req -in v1ca.csr -signkey ca.key -days 30 -out v1ca.pem
leaf byv1 p256 v1ca localhost server

# Each with one fault.
leaf asca p256 ca localhost asca
leaf critical p256 ca localhost critical
leaf sha1 p256 ca localhost server -md sha1 -days 30
for bits in 1024 2047; do
    openssl genpkey -algorithm RSA -pkeyopt "rsa_keygen_bits:$bits" -out "rsa$bits.key"
    leaf "rsa$bits" "rsa$bits" ca localhost server
done
# NAME EXTENSIONS KEY: a server's behind an intermediate with the fault.
behind() {
    leaf "$1inter" "$3" ca "intermediate $1" "$2"
    leaf "$1" p256 "$1inter" localhost server
    cat "$1inter.pem" >> "$1.pem"
}
behind notca notca inter
behind onlycorp onlycorp inter
behind directory directory inter
behind weakca root rsa1024
leaf pathleninter inter ca "intermediate pathlen" pathlen
leaf belowinter inter pathleninter "intermediate below" root
leaf pathlen p256 belowinter localhost server
cat belowinter.pem pathleninter.pem >> pathlen.pem

# As OpenSSL keeps a certificate with what it is trusted for.
openssl x509 -in ca.pem -addtrust serverAuth -out ca-trusted.pem -trustout
openssl x509 -in ca.pem -addreject serverAuth -out ca-rejected.pem -trustout

cat ca.pem rsaca.pem p384ca.pem > roots.pem
