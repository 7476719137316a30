"""Lines of provisioning logs: with secrets, which stand in « », and without any. All secrets are made up.

An item of SECRETS is one entry's message, or a tuple of the messages of several entries."""

PEM = "-----BEGIN RSA PRIVATE KEY-----\n«MIIEowIBAAKCAQEAxq3n5VnQh0cG»\n«yqVw0mD1tZbL9cPjE8kSxR2uNf4G»\n«kq==»\n-----END RSA PRIVATE KEY-----"
PGP = "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n«lQOYBGPm1nABCADKq0vNqXz7Yp»\n«=Wx3z»\n-----END PGP PRIVATE KEY BLOCK-----"
KEY = ["-----BEGIN EC PRIVATE KEY-----", "«MHcCAQEEIAmHq0rVw7pXz1d9kYt5bNfR8sLqGjE3uCwP»", "«oUQDQgAE2vT6nXcB8mKjH4gF1sDqPzLwYxRkVtNbMcQh»", "«9aW7eRtYuIoP==»",
       "-----END EC PRIVATE KEY-----"]

SECRETS = [
    # Plain lines, name and value
    "password: «Tr0ub4dor&3»", "Password: «correct-horse-9»", "passphrase: «seven blue otters»", "root password is set, password=«x9!kQ2w»",
    "Generated admin password: «mW4xT9pQ2z»", "initial root password = «uz7Rk-11»", "login failed for user=ops password=«s3same!» host=db1",
    "DB_PASSWORD=«pg-Secret_1»", "export MYSQL_ROOT_PASSWORD=«r00t,pw;x»", "postgresPassword=«Aa1(bB2)cC3»", "db.pass=«q1w2e3r4»", "ftp_pw=«Zx81cV»",
    "using secret «Q7r8S9t0U1v2» from the environment", "client_secret: «8Q~7nWm3pXz»", "API_TOKEN=«d3adb33fcafe»", "token = «0f1e2d3c4b5a»", "psk=«wifi 1234»".replace(" 1234", "-1234"),
    "wpa-psk «Qm8vT2nX9z»", "Passcode: «845213»", "user credentials: «bob/4g8Zq»", "ssid=\"lab\" psk=\"«correct horse»\"", "secretKey=«minio/Zx8+aQ==»",
    "otp=«492817»", "signing_key: «a83hf92kd83hf72jd8»", "unseal key 1: «mJ3kT9vQx2bN7wYpL5==»".replace("unseal key 1", "Unseal Key"),
    # cloud-init
    ("chpasswd:\n  list: |\n    root:«Winter2024»\n    core:«Summer#25»\n  expire: false"), "plain_text_passwd: «hunter-two-2»", "    passwd: «$6$rounds=4096$Zk3$b1hA9.x»",
    "hashed_passwd: «$y$j9T$F5Jx$kT8vWqLm»", "+ echo ubuntu:«Kestrel77»", "+ echo 'core:«pa ss»' | chpasswd", "user-data: «I2Nsb3VkLWNvbmZpZwpwYXNzd29yZDogeA==»",
    "rh_subscription: {username: me, password: «rhsm-Pw9»}", "activation-key: «b7x9Kq31mZ82»", "ssh_pwauth: true, password: «Zz9-plural»",
    ("password: |", "  «multi7line»"), "landscape: registration_key: «lk-38afh2Q9»", "chpasswd: {list: ['root:«Rt5x9Q»']}".replace("list: ['root:", "password: '").replace("']}", "'}"),
    # kubeadm, k3s, containers
    "kubeadm join 10.1.2.3:6443 --token «q7x2mp.8f3k1z9w0d5t6y4r» --discovery-token-ca-cert-hash sha256:5f2c", "kubeadm init --certificate-key «9f86d081884c7d659a2f» --upload-certs",
    "[bootstrap-token] Using token: «hx8k2p.1q9w8e7r6t5y4u3i»", "K3S_TOKEN=«K10c8a::server:7f3e»", "k3s agent --token=«K1077a::node:91bd» --server https://cp:6443",
    "RKE2_TOKEN='«rke-9x81»'", "docker login -u ci -p «Hx82-kQ» registry.example", '{"auths":{"quay.io":{"auth":"«cm9ib3Q6WjlrUXg4»"}}}', "podman login --password «pQ83x» quay.io",
    'containerd: [plugins.registry.auth] password = "«cR-91x»"', "kubelet: --bootstrap-token «m3x9q1.0a9b8c7d6e5f4a3b»", "client-key-data: «LS0tLS1CRUdJTiBSU0EgUFJJVkFURQ==»",
    "machineToken: «tlk9.x82hQ7»", "talosctl: trustdinfo token: «v3q9x1.zz81kq»",
    # Ignition
    '{"name":"X-Vault","value":"«s.9Qx82mK»"}', '"passwordHash":"«$2b$12$abcdefghijkl»"', '{"contents":{"source":"data:,«export%20PW=x»"}}', 'op(1): executing: "useradd" "--create-home" "--password" "«plainPw1»" "core"',
    'executing: "usermod" "-p" "«zQ8xHash»" "core"', '"keyFile":{"source":"data:;base64,«aHVudGVyMg==»"}', 'GET https://cfg.example/ign?token=«9d8f7a» attempt #1', 'config.source: "https://«ops:k3Yp4»@h/i.ign"',
    '\\"passwordHash\\": \\"«$6$abc$longhash»\\"', "Authorization: Bearer «tok-77-zz»", '"Authorization": "Basic «b3BzOnBhc3M=»"',
    # WireGuard, network, storage
    "PrivateKey = «yAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk=»", "[WireGuardPeer] PresharedKey=«FpCyhws9cxwWoV4xELtfJvjJN+zQVRPISllRWgeopVE=»", "wg set wg0 private-key «Ab3xY7»".replace("«Ab3xY7»", "«4Qx81kZpV9mT»"),
    "802-1x.private-key-password: «eap-Pw3»", "wifi-sec.psk: «home net 7»", "radius secret \"«rad1us-x»\"", "chap: node.session.auth.password = «ch4p-77»", "netroot=iscsi:«disk:pw12»@10.0.0.5::3260:1:iqn.x",
    "mount -t cifs //nas/x /mnt -o username=bob,password=«n4s!x»", "cryptsetup: passphrase=«Lks 9».".replace(" 9", "-9"), "LUKS_PASSPHRASE=«0tterPelt»", "snmp community auth-key «9sdf8s7df6»", "tskey: registering with tskey-auth-«kq8XzCNTRL-9aWx»",
    # Cloud SDKs
    "AWS_SECRET_ACCESS_KEY=«wJalrXUtnFEMI/K7MDENG/bPxRfi»", "aws_session_token = «IQoJb3JpZ2luX2Vj»", '"SecretAccessKey" : "«Zx9/Qm+81kW»"', '{"AccessKeyId":"ASIAX","Token":"«FwoGZXIvYXdz»"}', "X-aws-ec2-metadata-token: «AQAEAxyz12»",
    "GET /c/b?sv=2022-11-02&se=2026&sig=«Kq8%2Bz1W9x%3D» HTTP/1.1", "DefaultEndpointsProtocol=https;AccountName=st1;AccountKey=«b7Q9xZ81==»;EndpointSuffix=core.windows.net", "SharedAccessKey=«Zt81+kQ=»", "azure: client-secret='«9Xq~z»'",
    '"private_key": "-----BEGIN PRIVATE KEY-----\\n«MIIEvgIBADANBgkqh»\\n-----END PRIVATE KEY-----\\n"', 'metadata: {"access_token":"«ya29.c.b0AXv0zTP»","expires_in":3599}', "DIGITALOCEAN_ACCESS_TOKEN «x»".replace(" «x»", "=«dop-91827»"), "HCLOUD_TOKEN: «jEheVytlAoFl7F8»",
    "GET https://b.s3.amazonaws.com/k?X-Amz-Expires=60&X-Amz-Signature=«8b4fe01» 200", "vault write auth/approle/login role_id=r1 secret_id=«5c9f-77aa-12»", "OS_PASSWORD=«0penSt4ck»", "oci: pass_phrase=«oc1-pp»", "ibmcloud_api_key: «Qz-81_kLx»",
    # HTTP
    "> Cookie: session=«8f7e6d»; theme=«dark»", "< Set-Cookie: sid=«a9s8d7»; HttpOnly", "X-Api-Key: «ak-9918»", "curl -u admin:«c0rrect» https://h/x", "curl --user 'me:«it is 9»' https://h", "Proxy-Authorization: Basic «dTpwdw==»",
    "map[Accept:[*/*] Authorization:[Bearer «abc.def»]]", "X-Auth-Token=«gAAAAABk»", "wget --http-password=«wg3t» http://h/", "wget --password «wg4t» ftp://h/", "using bearer «eyfoo.bar» for the request", "proxy http://«u:p»@proxy:3128 set",
    # JSON, and JSON in JSON
    '{"user":"a","password":"«j5on»"}', '{"Password" : "«sp aced»"}', '{"msg":"{\\"token\\":\\"«nested1»\\",\\"a\\":1}"}', "{'db_password': '«py-dict»'}", '{"apiKey":"«cam3l»"}', '{"pin":1,"pwd":«82731»}', '{"tokens":["«t1»","«t2»"]}',
    '{"secret":"with \\"«quotes»\\" in it"}',
    # Tokens by their form
    "cloning with ghp_«16C7e42F292c6912E7710c838347Ae178B4a»", "found github_pat_«11ABCDEFG0aBcDeFgHiJkL»", "registry glpat-«xY7zQ9kL2mN4pR6tV8wB»", "slack xoxb-«1234567890-abcdEFGH1234»", "agent eyJ«hbGciOiJFUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln»",
    "sops: AGE-SECRET-KEY-«1QQPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L»", "vault hvs.«CAESIJ7x9Q2k»", "npm_«a1B2c3D4e5F6g7H8»", "sk-«proj1A2b3C4d5E6f7G8h»", "SG.«ngeVfQFYQlKU0ufo8x5d1A»",
    "POST https://hooks.slack.com/services/T00/B00/«XXXXyyyyZZZZ1234»",
    # Keys
    PEM, PEM.replace("\n", "\\n"), PGP, tuple(KEY), tuple("installer[7]: " + line for line in KEY), ("\n".join(KEY[:2]), "\n".join(KEY[2:])), ("key: " + KEY[0], *KEY[1:]), "der MIIEvQIBADAN«BgkqhkiG9w0BAQEFAASCBKc»",
    # Files
    "root:$6$«saltsalt$Q9z8x7w6v5»:19700:0:99999:7:::", "machine git.example login bot password «Nx8-81kQzz»", "requirepass «R3d1s-X9kk»".replace("requirepass ", "requirepass: "),
    "Command line: BOOT_IMAGE=/vmlinuz ro rd.report.maas.token=«a:b:c» quiet", 'Command line: ro rd.report.header="X-Tok: «hd r»" quiet', "Using kernel command line parameters: root=LABEL=x rd.report.header=Authorization: Bearer «tk9» ro",
    'Unknown kernel command line parameters "splash rd.report.tokne=«t0k»", will be passed to user space.',
]

# Real lines of boots, and what looks like a secret and is none.
HARMLESS = """\
Linux version 6.1.0-18-amd64 (debian-kernel@lists.debian.org) (gcc-12 (Debian 12.2.0-14) 12.2.0) #1 SMP PREEMPT_DYNAMIC
BIOS-e820: [mem 0x0000000000000000-0x000000000009fbff] usable
Kernel command line: console=ttyS0 root=UUID=5f2c8a4e-93d1-4c1b-9f2e-7d6a5b4c3d2e ro rd.luks=0 ip=dhcp
pci 0000:00:1f.2: [8086:2922] type 00 class 0x010601
ACPI: PCI: Interrupt link LNKA configured for IRQ 10
Key type dns_resolver registered
Key type asymmetric registered
Key type .fscrypt registered
Loaded X.509 cert 'Debian Secure Boot CA: 6ccece7e4c6c0d1f6149f3dd27dfcc5cbb419ea1'
Loaded X.509 cert 'Build time autogenerated kernel key: 8d02af3b9f75dd230deaf4e6abfbf08bd6558ab1'
x509: Loaded cert key id 8d02af3b9f75dd230deaf4e6abfbf08bd6558ab1
integrity: Unable to open file: /etc/keys/x509_evm.der (-2)
module verification failed: signature and/or required key missing - tainting kernel
PKCS#7 signature not signed with a trusted key
cfg80211: Loading compiled-in X.509 certificates for regulatory database
Loaded X.509 cert 'sforshee: 00b28ddf47aef9cea7'
random: crng init done
audit: type=2000 audit(1796000041.196:1): state=initialized audit_enabled=0 res=1
audit: type=1130 audit(1.5:2): pid=1 uid=0 auid=4294967295 ses=4294967295 subj=kernel msg='unit=systemd-udevd comm="systemd"'
virtio_blk virtio1: [vda] 4194304 512-byte logical blocks (2.15 GB/2.00 GiB)
EXT4-fs (vda4): mounted filesystem with ordered data mode. Quota mode: none.
XFS (vda3): Mounting V5 Filesystem 9c1f2b4e-0d3a-4b5c-8e7f-1a2b3c4d5e6f
input: AT Translated Set 2 keyboard as /devices/platform/i8042/serio0/input/input0
systemd[1]: Started systemd-ask-password-console.path - Dispatch Password Requests to Console Directory Watch.
systemd[1]: Reached target cryptsetup.target - Local Encrypted Volumes.
systemd[1]: Listening on systemd-journald-audit.socket - Journal Audit Socket.
Started Forward Password Requests to Wall Directory Watch.
ignition[512]: Ignition 2.15.0
ignition[512]: reading system config file "/usr/lib/ignition/base.d/00-core.ign"
ignition[512]: GET https://169.254.169.254/metadata/instance: attempt #1
ignition[512]: GET result: Not Found
ignition[512]: parsed url from cmdline: ""
ignition[512]: no config URL provided
ignition[512]: config SHA512: 9b71d224bd62f3785d96d46ad3ea3d73319bfbc2890caadae2dff72519673ca72323c3d99ba5c11d7c7acc6e14b8c5da0c4663475c2e5c3adef46f73bcdec043
ignition[512]: files: createFilesystemsFiles: createFiles: op(3): [started]  writing file "/sysroot/etc/hostname"
ignition[512]: files: ensureUsers: op(1): [finished] creating or modifying user "core"
wrote ssh authorized keys file for user: core
adding ssh keys to user "core"
"sshAuthorizedKeys": ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJx8nWq3pZk7T0mVb5sRdLfYhGcQeUwXo1aNtKzB9vPj me@host"]
ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABAQDKq0vNqXz7Yp8sLmWtR3 core@localhost
sk-ssh-ed25519@openssh.com AAAAGnNrLXNzaC1lZDI1NTE5QG9wZW5zc2guY29t user
Host key fingerprint: SHA256:uNiVztksCsDhcc0u9e8BgrJXVGDuFnqQHLzYkQ2tZ0o
256 SHA256:Xq3kT0mVb5sRdLfYhGcQeUwXo1aNtKzB9vPj8nWq3pZ root@node1 (ED25519)
Server host key: ssh-ed25519 SHA256:Lq8vT2nX9zbN7wYpL5mJ3kT9vQx2bN7wYpL5mJ3kT9v
public key: 6ccece7e4c6c0d1f6149f3dd27dfcc5cbb419ea1
PublicKey = HIgo9xNzJMWLKASShiTqIybxZ0U3wGLiUeJ1PKf8ykw=
password authentication disabled
PasswordAuthentication no
Password: (hidden)
password: not set
password: authentication failure for user core
password=***
"password": null
"password": ""
"token": null
Please enter passphrase for disk QEMU_HARDDISK (luks-1):
Enter passphrase for /dev/vda3:
passwd: password changed.
passwd: files systemd
/etc/passwd: permission denied
chpasswd: (user core) pam_chauthtok() failed, error: Authentication token manipulation error
pam_unix(chpasswd:chauthtok): password changed for core
pam_unix(sshd:session): session opened for user core(uid=1000) by (uid=0)
token bucket filter loaded
sch_tbf: token bucket queueing registered
unexpected token: '}' at line 4
syntax error near unexpected token `fi'
Token: expired
token_type: Bearer
token_ttl=3600
auth: ok
auth: failed for user core
auth_method=publickey
Authentication: required
Authorization: denied
authorized keys updated
security: LSM: 4 modules initialized
credentials directory /run/credentials/@system mounted
LoadCredential=cred.net:/etc/net.json
Imported 2 credentials from the initrd
secret: none
secrets: disabled
key: value
key=F1 pressed
keymap: us
Session 3 of user core.
session: closed
Session: c1
signature: valid
Signature: verified OK
gpg: Good signature from "Fedora (39) <fedora-39-primary@fedoraproject.org>" [ultimate]
gpg: Signature made Tue 07 Nov 2023 using RSA key E8F23996F23218640CB44CBE75CF5AC418B8E74C
sha512-9b71d224bd62f3785d96d46ad3ea3d73319bfbc2890caadae2dff72519673ca7
sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
verification hash mismatch: got sha512-0cf9180a764aba86 expected sha512-9b71d224bd62f378
digest: "sha256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
UUID: 550e8400-e29b-41d4-a716-446655440000
boot_id=cc2a2fae552745a68ac61cc401f811a8
machine-id: 8e40128e62394571a74cba500e0d4b0a
Initializing machine ID from random generator.
MAC 52:54:00:12:34:56 on eth0
eth0: DHCPv4 address 10.0.2.15/24, gateway 10.0.2.2 acquired from 10.0.2.2
TCP: request_sock_TCP: Possible SYN flooding on port 6443. Sending cookies.
tcp_syncookies = 1
nfs: server 10.0.0.5 OK
sudo: pam_unix(sudo:auth): auth could not identify password for [core]
passing arguments to init
bypass=1 passthrough=on
iommu.passthrough=1
IOMMU pass: 2
fsck: Pass 1: Checking inodes, blocks, and sizes
tests: pass: 12 fail: 0
PWD=/root
PATH=/usr/sbin:/usr/bin:/sbin:/bin
rd.luks.key is not given
certificate key usage: digitalSignature
-----BEGIN CERTIFICATE-----
echo Status: running
Basic authentication is off
the bearer of this message
user: core
disk-by\\x2dlabel-root.device: Job timed out
usermod: no changes
curl -u is not used
npm_config_cache=/root/.npm
docker login succeeded
task-worker-1.service: Deactivated successfully.
cookie-store.service: Consumed 1.234s CPU time.
secret-service.socket - Listening""".split("\n")
