/* The table of commands (commands.def) with the options that several share: parsing, --help, man pages and completion come from it. */
#include "client/commands/commands_priv.h"

#include "policy/label.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct option_row global_options[] = {
    {'j', "json", NULL,
     "one JSON value on standard output (of audit tail and audit search one a line), errors as JSON on standard error"},
    {'Z', "wide", NULL, "whole tables, also on a terminal with too few columns for them"},
    {'v', "verbose", NULL, "show each request on standard error; secrets stay hidden"},
    {'h', "help", NULL, "show this"},
};

static const struct option_row login_options[] = {
    {'u', "username", "NAME",
     "a robot (robot$acme+ci), or oidc with a CI system's token as password (default, with its --ca-file: that of the stored login)"},
    {'c', "ca-file", "FILE", "PEM certificates to trust instead of the system's"},
    {'p', "password-stdin", NULL, "read the password from standard input (this is always so; without echo)"},
    {'i', "issuer", "URL",
     "log in as a person, at this OAuth issuer; the other options about it default to those of the stored login"},
    {'I', "client-id", "ID", "the name by which the issuer knows sijil (default: sijil)"},
    {'d', "device", NULL,
     "with a code that you type into a page of the issuer, on any machine (default where no browser can be opened)"},
    {'b', "browser", NULL, "with a browser of this machine, which comes back to a port of 127.0.0.1"},
    {'f', "fresh", NULL, "have the issuer ask again who you are, with a browser: for actions that need a fresh login"},
    {'a', "acr-values", "VALUES", "how the issuer should ask, as the registry names it in its refusal; with --fresh"},
    {'P', "callback-port", "PORT", "that port, if the issuer allows one only (default: any)"},
    {'s', "scope", "SCOPES", "what to ask the issuer for (default: \"openid offline_access\")"},
    {'r', "resource", "URI", "the registry's name at the issuer: the audience of the token (default: https://HOST)"},
    {'C', "issuer-ca-file", "FILE", "PEM certificates to trust for the issuer instead of the system's"},
};
#define JOBS_OPTION                                                      \
    {                                                                    \
        'J', "jobs", "NUMBER", "files at a time (default 4, at most 16)" \
    }
static const struct option_row push_options[] = {
    {'a', "annotation", "KEY=VALUE", "annotation of the manifest; may be repeated"},
    {'d', "dataset", NULL, "the files are a dataset, not a model"},
    {'L', "follow-links", NULL, "follow links to files also out of a FILE that is a folder"},
    JOBS_OPTION,
};
static const struct option_row pull_options[] = {
    {'o', "output", "FOLDER", "folder for the files; made, with its parents, if it does not exist (default: this folder)"},
    JOBS_OPTION,
};
static const struct option_row inspect_options[] = {
    {'r', "raw", NULL, "the manifest alone, byte for byte"},
};
#define WITHIN_OPTION                                                                                            \
    {                                                                                                            \
        'w', "within", "ORGANISATION[/PROJECT]", "as an auditor of this part; without it, of the whole registry" \
    }
#define PURPOSE_OPTION                                                                                               \
    {                                                                                                                \
        'p', "purpose", "TEXT", "why you look: it is recorded, sealed; without it names and addresses are not shown" \
    }
static const struct option_row tail_options[] = {
    WITHIN_OPTION,
    {'n', "lines", "COUNT", "number of events, newest last (default 20, at most 1000)"},
    {'f', "follow", NULL, "show new events until interrupted"},
    {'k', "key", "KEY", "only events under this key: res:acme/models/digits, prj:acme/models, out:denied, act:PSEUDONYM"},
    {'F', "facts", NULL, "with --json: also the facts of each decision, as 'sijil-verify replay' reads them"},
    {'C', "csv", NULL, "as CSV (RFC 4180), with times in UTC"},
    PURPOSE_OPTION,
};
#define AUDIT_SEARCH_OPTIONS                                                                                                    \
    WITHIN_OPTION, {'a', "actor", "NAME", "of this actor: a name, a pseudonym, anonymous or system"},                           \
        {'A', "action", "ACTION[,ACTION...]", "with one of these actions, such as blob.read"},                                  \
        {'r', "resource", "NAME", "about this name exactly, such as acme/models/digits"},                                       \
        {'P', "prefix", "NAME", "about this name, or a name below it"}, {'d', "digest", "DIGEST", "that name this digest"},     \
        {'t', "tag", "TAG", "about manifests and tags that name this tag"},                                                     \
        {'o', "outcome", "OUTCOME[,OUTCOME...]", "allowed, denied, failed or completed"},                                       \
        {'R', "rule", "RULE", "that this rule denied"}, {'g', "region", "REGION", "that touch bytes in this region"},           \
        {'x', "run", "ID", "about this training run"}, {'D', "decision", "ID", "of this decision"},                             \
        {'q', "request", "ID", "of this request"}, {'e', "detail", "WORD", "with this word in the detail"},                     \
        {'c', "country", "CODE", "of clients in this country, by the networks of the policy set"},                              \
        {'i', "address", "ADDRESS", "of a client with this IP address"},                                                        \
        {'N', "network", "NETWORK", "of clients in this network: /24 of IPv4, /56 of IPv6"},                                    \
        {'s', "since", "TIME", "from this time on: RFC 3339, or 7d, 12h, 30m ago"}, {'u', "until", "TIME", "before this time"}, \
        {'k', "key", "KEY", "under this key, as with audit tail"},                                                              \
    {                                                                                                                           \
        'p', "purpose", "TEXT", "why you search; it is recorded, sealed, with the search. Names and addresses need it"          \
    }
static const struct option_row search_options[] = {
    AUDIT_SEARCH_OPTIONS,
    {'n', "lines", "COUNT", "at most so many events (default 100), or all"},
    {'O', "oldest-first", NULL, "the oldest event first"},
    {'C', "csv", NULL, "as CSV (RFC 4180), with times in UTC"},
    {'S', "save", "NAME", "also save the search under this name, for audit saved"},
    {'y', "why", NULL, "below each denial its reasons, as the client was told them"},
};
#define WITNESS_POLICY_OPTION                                                                                                    \
    {                                                                                                                            \
        'W', "witness-policy", "FILE", "wait, up to two minutes, until the witnesses of your own policy have cosigned the proof" \
    }
static const struct option_row export_options[] = {
    WITHIN_OPTION,
    {'k', "key", "KEY", "the key: org:, prj: or res: and a name, act:PSEUDONYM, out:denied or out:failed"},
    {AUDIT_EXPORT_CONDITION + 'a', "actor", "PSEUDONYM", "the key act:, if it is the only condition"},
    {AUDIT_EXPORT_CONDITION + 'r', "resource", "NAME", "the key res:, if it is the only condition"},
    {AUDIT_EXPORT_CONDITION + 'P', "prefix", "NAME", "the key org: or prj:, if it is the only condition"},
    {AUDIT_EXPORT_CONDITION + 'o', "outcome", "OUTCOME", "the key out:, if it is the only condition"},
    {AUDIT_EXPORT_CONDITION + 'A', "action", "ACTION",
     "no key stands for it, so its completeness can't be proven: the command says which keys to export instead"},
    {AUDIT_EXPORT_CONDITION + 'd', "digest", "DIGEST", "the same"},
    {AUDIT_EXPORT_CONDITION + 't', "tag", "TAG", "the same"},
    {AUDIT_EXPORT_CONDITION + 'R', "rule", "RULE", "the same"},
    {AUDIT_EXPORT_CONDITION + 'g', "region", "REGION", "the same"},
    {AUDIT_EXPORT_CONDITION + 'x', "run", "ID", "the same"},
    {AUDIT_EXPORT_CONDITION + 'D', "decision", "ID", "the same"},
    {AUDIT_EXPORT_CONDITION + 'q', "request", "ID", "the same"},
    {AUDIT_EXPORT_CONDITION + 'e', "detail", "WORD", "the same"},
    {AUDIT_EXPORT_CONDITION + 'c', "country", "CODE", "the same"},
    {AUDIT_EXPORT_CONDITION + 'i', "address", "ADDRESS", "the same"},
    {AUDIT_EXPORT_CONDITION + 'N', "network", "NETWORK", "the same"},
    {'f', "from", "BEGIN", "from this number or time on: RFC 3339, or 7d, 12h, 30m ago (default: the beginning)"},
    {'t', "to", "END", "before this number or time (default: now)"},
    {'F', "format", "FORMAT", "ndjson (default), csv or ocsf; each has the proofs"},
    {'o', "output", "FILE", "the file; it must not be there"},
    {'c', "continue", NULL, "go on with FILE.part, which was broken off"},
    {'O', "open", NULL, "with names, addresses and claims, which are sealed else; needs --purpose"},
    {'p', "purpose", "TEXT", "why: recorded, sealed, with the export"},
    {'n', "nonce", "HEX", "32 to 64 hexadecimal digits of your own (default: drawn)"},
    {'K', "log-key", "VKEY", "the key of the log, as you keep it: check the file as sijil-verify does, and say what is proven"},
    WITNESS_POLICY_OPTION,
};
static const struct option_row count_options[] = {
    AUDIT_SEARCH_OPTIONS,
    {'C', "csv", NULL, "as CSV (RFC 4180)"},
};
static const struct option_row timeline_options[] = {
    AUDIT_SEARCH_OPTIONS,
    {'O', "oldest-first", NULL, "the oldest time first"},
    {'b', "by", "STEP", "minute, hour (default), day or month"},
    {'C', "csv", NULL, "as CSV (RFC 4180)"},
};
static const struct option_row key_options[] = {
    WITHIN_OPTION,
    {'d', "documents", NULL, "the key of signed documents instead (PEM), for sijil-verify --signer"},
    {'f', "follow", "FILE",
     "FILE has the key that you trust: add the signed handovers that lead to the newest key, or refuse it"},
};
static const struct option_row proof_options[] = {
    WITHIN_OPTION,
    {'M', "mine", NULL, "an event of your own: a receipt, which needs no right to read the log"},
    {'o', "output", "FOLDER", "write entry.json and entry.tlog-proof there (default: this folder)"},
    WITNESS_POLICY_OPTION,
};
#define SIGN_WITH_OPTION                                                                                   \
    {                                                                                                      \
        SIGN_WITH, "sign-with", "FILE",                                                                    \
            "your enrolled private key, or a pkcs11: URI, which signs this request where that is demanded" \
    }
static const struct option_row robot_create_options[] = {
    SIGN_WITH_OPTION,
    {'e', "expires", "DAYS", "days until it expires (default 90, which is the most)"},
};
static const struct option_row robot_rotate_options[] = {
    SIGN_WITH_OPTION,
    {'e', "expires", "DAYS", "days until it expires (default 90, which is the most)"},
    {'k', "certificate", "FILE|NAME",
     "no secret: it logs in by this certificate (PEM), or by one that has the name dns:HOST or uri:URI"},
    {'g', "grace", "TIME", "how long the old secret stays valid: seconds, or 15m, 2h, 1d (default 0, at most 7d)"},
};
static const struct option_row binding_create_options[] = {
    SIGN_WITH_OPTION,
    {'e', "expires", "DAYS", "days until it ends (default: as the registry is configured, a year)"},
    {'i', "issuer", "URL", "the principal is a subject of this OIDC issuer, not a robot"},
};
static const struct option_row grant_options[] = {
    {'f', "file", "FILE", "the roles, one JSON object on each line"},
    {'s', "within", "SCOPE",
     "all are inside this organisation or organisation/project, for those who may grant in a project alone"},
};
static const struct option_row project_create_options[] = {
    {'r', "region", "REGION", "home region of its content (default: the registry's first)"},
    {'l', "label", "JSON", "floor label: {\"class\":\"sensitive\",\"subjects\":[\"health\"]}"},
};
static const struct option_row issuer_trust_options[] = {
    {'a', "audience", "TEXT", "the only audience of its tokens (default: the registry's public URL)"},
    {'A', "algorithm", "NAME", "RS256, PS256, ES256, ES384 or EdDSA; may be repeated (default: RS256)"},
    {'m', "lifetime-max", "SECONDS", "longest life of its tokens (default: 3600)"},
};
static const struct option_row issuer_add_options[] = {
    SIGN_WITH_OPTION,
    {'a', "audience", "TEXT", "the only audience of its tokens (default: the registry's public URL)"},
    {'A', "algorithm", "NAME", "RS256, PS256, ES256, ES384 or EdDSA; may be repeated (default: RS256 and ES256)"},
    {'m', "lifetime-max", "SECONDS", "longest life of its tokens (default: 3600)"},
    {'k', "keys-url", "URL", "where its keys are (default: where its metadata says)"},
};
static const struct option_row delete_options[] = {
    SIGN_WITH_OPTION,
    {'n', "dry-run", NULL, "delete nothing; show the plan"},
    {'p', "plan", "DIGEST", "delete what the plan of this digest shows"},
};
#define DETACH_OPTION                                  \
    {                                                  \
        'd', "detach", NULL, "do not wait for the end" \
    }
static const struct option_row scrub_options[] = {
    {'r', "region", "REGION", "region (default: the registry's first)"},
    {'g', "digest", NULL, "hash the content as well, and compare it with its digest"},
    {'b', "rate", "BYTES", "bytes that are read in a second at most (default: scrub_rate of the server)"},
    DETACH_OPTION,
};
#define PROJECT_OPTION                                                         \
    {                                                                          \
        'P', "project", "ORGANISATION/PROJECT", "a collection of this project" \
    }
static const struct option_row job_options[] = {PROJECT_OPTION};
static const struct option_row job_show_options[] = {{'f', "follow", NULL, "show its progress until it ends"}, PROJECT_OPTION};
static const struct option_row quota_options[] = {
    {'b', "bytes", "NUMBER", "limit on bytes of blobs, manifests and open uploads; with K, M, G or T; none"},
    {'s', "sessions", "NUMBER", "limit on open uploads; none: as for all projects"},
    {'S', "sessions-per-client", "NUMBER", "limit on open uploads of one client; none: as for all projects"},
    {'e', "events-per-minute", "NUMBER", "limit on requests in a minute, over all gateways; none"},
    {'c', "cpu-seconds", "NUMBER", "budget of processor seconds of its training runs; none"},
    {'g', "gpu-seconds", "NUMBER", "budget of device seconds of its training runs; none"},
};
static const struct option_row gc_options[] = {
    {'n', "dry-run", NULL, "remove nothing; report what would be removed"},
    {'r', "rules", "FILE", "with --dry-run of one project: try these rules instead of its own"},
    DETACH_OPTION,
};
#define KEY_OPTIONS                                                                                                      \
    {'k', "key", "FILE", "the private key that signs (P-256, PEM; nobody else may read it)"},                            \
    {                                                                                                                    \
        'P', "pkcs11", "URI", "instead, a key in a PKCS#11 token (RFC 7512); the PIN is in its pin-source, or asked for" \
    }
#define TOKEN_OPTION                                                                                         \
    {                                                                                                        \
        't', "by-token", NULL, "instead, ask by the token of the login: sijil-keyd signs the request for it" \
    }
#define LIFE_OPTION                                                                        \
    {                                                                                      \
        'e', "expires", "HOURS", "hours until the request ends, at most 720 (default: 24)" \
    }
#define WAIT_OPTIONS                                                                \
    {'w', "wait", NULL, "wait for its end; exit status 7 if it has not succeeded"}, \
    {                                                                               \
        'f', "follow", NULL, "the same, and show what it prints"                    \
    }
static const struct option_row policy_sign_options[] = {
    KEY_OPTIONS,
    {'e', "epoch", "NUMBER", "number of the new set; must be larger than that of the active one"},
    {'o', "output", "FILE", "where the signed set goes; - is standard output (default: -)"},
};
static const struct option_row policy_draft_options[] = {
    {'c', "comment", "TEXT", "what the set is for; signed with it"},
    {'f', "from", "TIME", "when it comes into force at the earliest; then \"policy activate\""},
    {'w', "wait", "DAYS", "how long it waits for signatures, at most 7 (default: 7)"},
    {'p', "plan", "DIGEST", "the plan that its signers have seen"},
    {'R', "root", "NUMBER", "so many persons must sign a change of these numbers from then on"},
    {'N', "policies", "NUMBER", "with --root: so many must sign a policy set (default: 1)"},
    {'O', "officers", "NUMBER", "with --root: so many must sign the key of an approver (default: 1)"},
    {'H', "holder", "PRINCIPAL", "with --root: the person that has the root's key, as \"whoami\" shows it"},
};
static const struct option_row policy_exception_options[] = {
    {'t', "type", "TYPE", "one of the policy's types of exceptions (default: its only one)"},
    {'l', "lift", "RULE", "a rule that it lifts; may be repeated (default: all that the type lifts)"},
    {'o', "op", "OPERATION", "an operation: read, ingest; may be repeated"},
    {'T', "target", "TARGET", "a region, or a network as the set names it; may be repeated"},
    {'d', "digest", "DIGEST", "of the content, sha256:...; may be repeated"},
    {'b', "begin", "TIME", "not before (default: now)"},
    {'u', "until", "TIME", "its end, such as 2026-12-08T00:00:00Z"},
    {'n', "uses", "NUMBER", "how many requests may use it (default: 1)"},
    {'a', "approver", "SUBJECT", "a person that is to sign it, of your own issuer, or \"ISSUER SUBJECT\"; may be repeated"},
    {'e', "evidence", "NAME=FILE", "a file with the grounds, of which the digest is signed; may be repeated"},
    {'i', "id", "ID", "its name (default: the type and a random number)"},
    {'c', "comment", "TEXT", "what it is for; signed with it"},
    {'w', "wait", "DAYS", "how long it waits for signatures, at most 7 (default: 7)"},
};
static const struct option_row region_add_options[] = {
    {'g', "geo", "PLACE", "where it is: AE, AE/DU"},
    {'r', "regime", "REGIME", "whose law it is under: AE-FED, DIFC; may be repeated"},
    {'n', "operator", "NAME", "who runs it"},
    {'C', "controlled-from", "COUNTRY", "where the operator is controlled from; may be repeated"},
    {'K', "key-ring", "NAME", "the key ring that its keys are in"},
    {'G', "key-geo", "PLACE", "where these keys are"},
    {'x', "key-control", "HOW", "customer-hsm, customer-soft or provider-kms"},
    {'D', "keyd", "THUMBPRINT", "its own sijil-keyd, by the key that 'sijil-keyd --init --region' printed"},
    {'a', "attr", "NAME[=DAY,FILE]", "an attribute, with the last day on which FILE attests it; may be repeated"},
    {'E', "location-evidence", "TEXT", "what the place is known from"},
    {'s', "site", "NAME", "its site"},
    {'e', "endpoint", "URL", "of a bucket: its store"},
    {'b', "bucket", "NAME", "of a bucket: its name; without it the region is a folder"},
    {'l', "location", "NAME", "of a bucket: what the store calls its place"},
    {'q', "prefix", "PREFIX", "of a bucket: of all keys"},
    {'F', "file-system", "KIND", "of a folder: ext4, xfs"},
    {'u', "change", NULL, "change what you name of a region that is there"},
    {'c', "comment", "TEXT", "what the set is for; signed with it"},
    {'w', "wait", "DAYS", "how long it waits for signatures, at most 7 (default: 7)"},
};
static const struct option_row recover_sign_options[] = {
    KEY_OPTIONS,
    {'o', "output", "FILE", "where the signed plan goes; - is standard output (default: -)"},
};
static const struct option_row log_key_sign_options[] = {
    KEY_OPTIONS,
    {'O', "old", "VKEY", "the key of the log that counts now"},
    {'n', "new", "VKEY", "the key that follows"},
    {'l', "overlap", "TIME", "so long the old key signs, too: 30d, 12h (default: 30d)"},
    {'o', "output", "FILE", "where the signed order goes; - is standard output (default: -)"},
};
static const struct option_row witnesses_sign_options[] = {
    KEY_OPTIONS,
    {'i', "origin", "ORIGIN", "the log: the name of its key, such as registry.example/audit"},
    {'e', "epoch", "NUMBER", "number of the new policy; must be larger than that of the pinned one (the first has 0)"},
    {'o', "output", "FILE", "where the signed policy goes; - is standard output (default: -)"},
};
#define ORGANISATION_OPTION                                      \
    {                                                            \
        's', "organisation", "NAME", "the organisation it is of" \
    }
#define SCOPE_OPTION                                                                              \
    {                                                                                             \
        's', "scope", "SCOPE", "an organisation, or organisation/project (default: the registry)" \
    }
static const struct option_row key_enroll_options[] = {
    KEY_OPTIONS,
    {'O', "old", "FILE",
     "the private key of yours that this one replaces, or a pkcs11: URI: an officer's or approver's new key waits a day without it"},
    {'p', "purpose", "NAME", "sign: what its holder asks for; approve: documents of others (default: sign)"},
    {'e', "expires", "DAYS", "days until it ends, at most 732 (default: 365)"},
    SCOPE_OPTION,
};
static const struct option_row runner_invite_options[] = {
    KEY_OPTIONS,
    {'g', "region", "REGION", "the region of the policies where the runner is"},
    {'J', "jurisdiction", "PLACE", "where it is, such as AE or AE-FED; may be repeated"},
    {'p', "pool", "NAME", "the pool whose runs it serves (default: default)"},
    {'d', "devices", "NUMBER", "accelerators that it may use (default: 0)"},
    {'i', "isolation", "LEVEL", "the least that it gives: rlimits, cgroup-v1 or cgroup-v2 (default: rlimits)"},
    {'a', "assurance", "NUMBER", "how well you know the machine, 1 to 3 (default: 1); 4 needs the three options below"},
    {'E', "evidence", "FILE", "what shows that the machine is there; its SHA-256 is signed"},
    {'N', "network", "NETWORK", "where an attested runner calls from, such as 10.1.7.0/28; may be repeated"},
    {'b', "attested-by", "TEXT", "who has looked at the machine, and how"},
    {'n', "node", "UID", "a node of a Kubernetes cluster where its pods may be; may be repeated"},
    {'e', "expires", "DAYS", "days until the runner must be enrolled anew, at most 732 (default: 365)"},
    {'H', "hours", "HOURS", "hours until the code ends, at most 24 (default: 24)"},
    {'o', "output", "FILE", "where the file goes; - is standard output (default: -)"},
    SCOPE_OPTION,
};

#define OPTIONS(rows) rows, COUNT(rows)
#define ROWS(...)     (const struct option_row[]){__VA_ARGS__}, COUNT(((const struct option_row[]){__VA_ARGS__}))
#define NO_OPTIONS    NULL, 0

#define DELETION                                                                                                                                      \
    "An empty one is deleted at once. Otherwise the plan is shown: read it, and repeat the command with --plan and its digest. Exactly the planned\n" \
    "content is deleted: if something changed since, nothing is deleted and the new plan is shown. Afterwards the name is free,\n"                    \
    "the roles on it have ended, and the next collection frees its bytes."

#define X(constant, name) name " "
#define CLASSES           "Classes, the least strict first: " LABEL_CLASSES(X)

/* Arrays, because a row of commands.def can't include another table. */
static const char run_states[] = "States:"
#define STATE(constant, name, is_end) " '" name "'"
#include "training/states.def"
                                 ".";
static const char scope_and_role[] =
    "SCOPE is \"\" for the registry, an organisation, a project, or a repository (a pattern may end in /*).\n"
    "ROLE is a role of a signed document (\"admin role list\"), or one of: "
#define ROLE(constant, name, ...) name " "
#include "authz/roles.def"
#undef ROLE
    ;

static const struct command table[] = {
#define COMMAND(name, operands, least, most, summary, detail, options, run) \
    {name, operands, least, most, summary, detail, options, run},
#include "client/commands/commands.def"
#undef COMMAND
};
#undef X

const struct command *commands_table(size_t *count_out)
{
    *count_out = COUNT(table);
    return table;
}

const struct option_row *commands_global_options(size_t *count_out)
{
    *count_out = COUNT(global_options);
    return global_options;
}
