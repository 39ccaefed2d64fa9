#include "cmd/options.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct option_row main_rows[] = {
    {SIJILD_CONFIG, "config", "FILE", "configuration; default: /etc/sijil/sijild.conf"},
    {SIJILD_CHECK, "check-config", NULL, "report all problems of the configuration, and end"},
    {SIJILD_ONLINE, "online", NULL, "with --check-config, as the gateway's user: ask database, sijil-keyd and regions, too"},
    {SIJILD_SAMPLE, "sample-config", NULL, "print a configuration with all parameters and their defaults, and end"},
    {SIJILD_MIGRATE, "migrate", NULL, "bring the database to this program's schema, and end"},
    {SIJILD_DATABASE_OWNER, "database-owner", "FILE",
     "connection string of the database's owner, mode 600; default: /etc/sijil/database-owner. With --check-config: try it"},
    {SIJILD_FOUND, "found", "FILE",
     "create missing regions, first project and first administrator, write the administrator's secret to FILE, and end"},
    {SIJILD_REPLACE_ADMIN, "replace-admin", "FILE",
     "revoke the administrator, create another one, write its secret to FILE, record that, and end"},
    {SIJILD_APPROVER, "approver", "PEM", "with --found: public key that verifies policy sets; later, it must be the same one"},
    {SIJILD_POLICY_SET, "policy-set", "FILE",
     "with --found: the first signed policy set; later, it must be one that was in force"},
    {SIJILD_RECOVER_PLAN, "recover-plan", "FILE",
     "entries of the log are lost: check what is left, write the plan that two officers sign to FILE, and the keys of the log to FILE.keys, and end; "
     "with --embedded: the plan that its administrator signs alone"},
    {SIJILD_RECOVER_REASON, "recover-reason", "TEXT", "with --recover-plan: why, at most 200 characters, for ever in the log"},
    {SIJILD_RECOVER_CHECKPOINT, "recover-checkpoint", "FILE",
     "with --recover-plan: newest cosigned checkpoint of a witness or an auditor; default: the newest one that is left"},
    {SIJILD_RECOVER, "recover", "FILE",
     "take the signed plan, one line for each officer; the log goes on under a new origin; and end"},
    {SIJILD_HELP, "help", NULL, "show this text and end"},
    {SIJILD_VERSION, "version", NULL, "show the version and end"},
};
static const struct option_row embedded_rows[] = {
    {SIJILD_EMBEDDED, "embedded", "DIR", "create DIR if it does not exist, start everything, serve"},
    {SIJILD_ADDRESS, "listen-address", "IP", "default: 127.0.0.1, this machine only"},
    {SIJILD_PORT, "listen-port", "PORT", "default: 8443"},
    {SIJILD_URL, "public-url", "URL", "URL for clients; default: https://ADDRESS:PORT"},
    {SIJILD_GEO, "geo", "XX", "country of the machine, at the first start; default: AE"},
    {SIJILD_OPERATOR, "operator", "NAME", "operator of the machine, at the first start"},
    {SIJILD_NETWORK, "network", "CIDR", "network whose clients are proven to be in the machine's country, at the first start"},
    {SIJILD_PASSPHRASE_FILE, "passphrase-file", "FILE",
     "file with the key ring's passphrase; default: one outside DIR, made at random"},
    {SIJILD_PASSPHRASE_FD, "passphrase-fd", "N", "read the passphrase from an open descriptor"},
    {SIJILD_SECRETS, "secrets-dir", "FOLDER",
     "folder for admin.json and private keys, in a folder with DIR's id; default: one outside DIR"},
    {SIJILD_BLOB_LEASE, "blob-lease", "SECONDS", "as blob_lease of the configuration; default: 86400"},
    {SIJILD_ERASURE_RETENTION, "erasure-retention", "SECONDS", "as erasure_retention of the configuration; default: 15552000"},
    {SIJILD_COLLECT_INTERVAL, "collect-interval", "SECONDS", "as collect_interval of the configuration; default: 86400"},
    {SIJILD_WITNESS_POLICY, "witness-policy", "FILE",
     "as witness_policy of the configuration: the witnesses that cosign the log, and their quorum; default: none"},
    {SIJILD_WITNESS_CA_FILE, "witness-ca-file", "FILE",
     "as witness_ca_file of the configuration; default: the system's authorities"},
    {SIJILD_WITNESS_INTERVAL, "witness-interval", "SECONDS", "as witness_interval of the configuration; default: 10"},
    {SIJILD_WITNESS_LAG, "witness-lag", "SECONDS", "as witness_lag of the configuration; default: 60"},
    {SIJILD_WITNESS_PATIENCE, "witness-patience", "SECONDS", "as --witness-patience of sijil-keyd; default, and most: 3600"},
    {SIJILD_ISSUER_NETWORKS, "issuer-networks", "NETWORKS",
     "as issuer_networks of the configuration: where issuers may be whose keys are fetched; default: the public internet"},
    {SIJILD_ISSUER_CA_FILE, "issuer-ca-file", "FILE",
     "as issuer_ca_file of the configuration; default: the system's authorities"},
    {SIJILD_INTROSPECTION_FILE, "introspection-file", "FILE",
     "as introspection_file of the configuration: issuers that are asked about their opaque tokens; default: none"},
    {SIJILD_CLIENT_CA, "client-ca", "FILE",
     "as tls_client_ca of the configuration: authorities of clients' certificates, to which tokens are bound; default: none"},
    {SIJILD_CLIENT_ANY, "client-any", NULL,
     "as tls_client_any of the configuration: tokens are bound to any certificate of a client, also a self-signed one"},
    {SIJILD_NO_RUNNER, "no-runner", NULL, "do not run training code on this machine; at the first start: make no trainer either"},
    {SIJILD_OFFICERS_BY_BINDINGS, "officers-by-bindings", NULL,
     "at the first start: bindings alone make administrators and officers, until the first signed document of a registry-admin"},
    {SIJILD_NEW_ADMIN, "new-admin", NULL, "create another administrator, when the first one's secret is lost"},
};
static const struct option_group groups[] = {
    {"", main_rows, COUNT(main_rows)},
    {"On one machine, with a PostgreSQL and keys of its own in DIR:", embedded_rows, COUNT(embedded_rows)},
};
static const char *const synopses[] = {
    "[--config=FILE] [--check-config [--online] | --found=FILE | --replace-admin=FILE | --recover-plan=FILE | --recover=FILE]",
    "--migrate [--database-owner=FILE]", "--embedded=DIR [--recover-plan=FILE | --recover=FILE] [OPTION]...", "--sample-config",
    NULL};
static const char *const see_also[] = {"sijild.conf(5)", "sijil(1)", "sijil-keyd(8)", "sijil-verify(1)", NULL};

const struct program sijild_program = {
    .name = "sijild",
    .section = 8,
    .summary = "registry of machine-learning artifacts and compliance gateway",
    .synopses = synopses,
    .about = "Serve a registry of machine-learning artifacts: the OCI protocol and /api/v1, over TLS 1.3.",
    .groups = groups,
    .group_count = COUNT(groups),
    .closing = "SIGHUP reads certificates again; SIGTERM and SIGINT finish running requests and end.",
    .exit_status = "0 success, 1 failure, 2 the command line or the configuration is wrong, 75 a part that it needs "
                   "was down: try again later.",
    .see_also = see_also,
};
