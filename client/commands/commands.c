/* The one table of commands and options: parsing, --help, man pages and completion come from it. */
#include "client/commands/commands_priv.h"

#include "policy/label.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct option_row global_options[] = {
    {'j', "json", NULL, "one JSON value on standard output (of audit tail one a line), errors as JSON on standard error"},
    {'v', "verbose", NULL, "show each request on standard error; secrets stay hidden"},
    {'h', "help", NULL, "show this"},
};

static const struct option_row login_options[] = {
    {'u', "username", "NAME", "a robot (robot$acme+ci), or oidc with a CI system's token as password"},
    {'c', "ca-file", "FILE", "PEM certificates to trust instead of the system's"},
    {'p', "password-stdin", NULL, "read the password from standard input (it always is, without echo)"},
};
#define JOBS_OPTION {'J', "jobs", "NUMBER", "files at a time (default 4, at most 16)"}
static const struct option_row push_options[] = {
    {'a', "annotation", "KEY=VALUE", "annotation of the manifest; may be repeated"},
    {'d', "dataset", NULL, "the files are a dataset, not a model"},
    {'L', "follow-links", NULL, "follow links to files also out of a FILE that is a folder"},
    JOBS_OPTION,
};
static const struct option_row pull_options[] = {
    {'o', "output", "FOLDER", "where the files go; made, with those above it, if it is not there (default: this folder)"},
    JOBS_OPTION,
};
static const struct option_row inspect_options[] = {
    {'r', "raw", NULL, "the manifest alone, byte for byte"},
};
static const struct option_row copy_options[] = {JOBS_OPTION};
#define WITHIN_OPTION \
    {'w', "within", "ORGANISATION[/PROJECT]", "as an auditor of this part; without it, of the whole registry"}
static const struct option_row tail_options[] = {
    WITHIN_OPTION,
    {'n', "lines", "COUNT", "how many events, newest last (default 20, at most 1000)"},
    {'f', "follow", NULL, "go on with new events until interrupted"},
    {'k', "key", "KEY", "only events under this key: res:acme/models/digits, prj:acme/models, out:denied, act:PSEUDONYM"},
    {'F', "facts", NULL, "with --json: also what each was decided on, as 'sijil-verify replay' reads it"},
};
static const struct option_row show_options[] = {WITHIN_OPTION};
static const struct option_row key_options[] = {
    WITHIN_OPTION,
    {'d', "documents", NULL, "the key of signed documents instead (PEM), for sijil-verify --signer"},
};
static const struct option_row proof_options[] = {
    WITHIN_OPTION,
    {'o', "output", "FOLDER", "write entry.json and entry.tlog-proof there (default: this folder)"},
};
static const struct option_row robot_create_options[] = {
    {'e', "expires", "DAYS", "days until it expires (default 90, which is the most)"},
};
static const struct option_row robot_rotate_options[] = {
    {'e', "expires", "DAYS", "days until it expires (default 90, which is the most)"},
    {'g', "grace", "TIME", "how long the old secret goes on: seconds, or 15m, 2h, 1d (default 0, at most 7d)"},
};
static const struct option_row binding_create_options[] = {
    {'e', "expires", "DAYS", "days until it ends (default: does not end)"},
    {'i', "issuer", "URL", "the principal is a subject of this OIDC issuer, not a robot"},
};
static const struct option_row project_create_options[] = {
    {'r', "region", "REGION", "home region of its bytes (default: the deployment's first)"},
    {'l', "label", "JSON", "floor label: {\"class\":\"sensitive\",\"subjects\":[\"health\"]}"},
};
static const struct option_row policy_show_options[] = {
    {'d', "document", NULL, "the set in force, as \"policy sign\" takes it"},
};
static const struct option_row issuer_trust_options[] = {
    {'a', "audience", "TEXT", "what its tokens must name, alone (default: the registry's public URL)"},
    {'A', "algorithm", "NAME", "RS256, PS256, ES256 or ES384; may be repeated (default: RS256)"},
    {'m', "lifetime-max", "SECONDS", "longest life of its tokens (default: 3600)"},
};
static const struct option_row delete_options[] = {
    {'n', "dry-run", NULL, "delete nothing; show the plan"},
    {'p', "plan", "DIGEST", "delete what the plan of this digest shows"},
};
#define DETACH_OPTION {'d', "detach", NULL, "do not wait for the end"}
static const struct option_row scrub_options[] = {
    {'r', "region", "REGION", "whose bytes (default: the deployment's first region)"},
    {'g', "digest", NULL, "hash the content as well, and compare it with its digest"},
    {'b', "rate", "BYTES", "bytes that are read in a second at most (default: scrub_rate of the server)"},
    DETACH_OPTION,
};
static const struct option_row certificate_options[] = {
    {'o', "output", "FILE", "where it goes; - is standard output (default: -)"},
};
static const struct option_row rewrap_options[] = {DETACH_OPTION};
#define PROJECT_OPTION {'P', "project", "ORGANISATION/PROJECT", "a collection of this project, as its administrators may"}
static const struct option_row job_options[] = {PROJECT_OPTION};
static const struct option_row job_show_options[] = {{'f', "follow", NULL, "show how far it is until it ends"}, PROJECT_OPTION};
static const struct option_row quota_options[] = {
    {'b', "bytes", "NUMBER", "most bytes of blobs and manifests, and of uploads on their way; with K, M, G or T; none"},
    {'s', "sessions", "NUMBER", "most open uploads; none: as for all projects"},
    {'S', "sessions-per-client", "NUMBER", "most open uploads of one client; none: as for all projects"},
    {'e', "events-per-minute", "NUMBER", "most requests in a minute, over all gateways; none"},
};
static const struct option_row gc_options[] = {
    {'n', "dry-run", NULL, "remove nothing; tell what would be"},
    {'r', "rules", "FILE", "with --dry-run of one project: try these rules instead of its own"},
    DETACH_OPTION,
};
static const struct option_row policy_sign_options[] = {
    {'k', "key", "FILE", "private key of the approver (PEM)"},
    {'e', "epoch", "NUMBER", "number of the new set; must be larger than that of the active one"},
    {'o', "output", "FILE", "where the signed set goes; - is standard output (default: -)"},
};

#define OPTIONS(rows) rows, COUNT(rows)
#define NO_OPTIONS    NULL, 0

#define DELETION \
    "What is empty goes at once. Else the plan is shown: read it, then repeat the command with --plan and its digest. What is\n" \
    "deleted is what was seen: if something changed since, nothing is deleted and the new plan is shown. Its name is free then,\n" \
    "its roles have ended, and the next collection frees its bytes."

#define X(constant, name) name " "
#define CLASSES "Classes, the least strict first: " LABEL_CLASSES(X)

static const struct command table[] = {
    {"login", "HOST[:PORT]", 1, 1, "Keep a user name and password for a registry",
     "The password is read from standard input and tried before it is kept, in a file that only you may read.",
     OPTIONS(login_options), command_login},
    {"logout", "HOST[:PORT]", 1, 1, "Forget them", "", NO_OPTIONS, command_logout},
    {"whoami", "HOST[:PORT]", 1, 1, "Show as whom you are logged in, and which roles that has now", "", NO_OPTIONS, command_whoami},
    {"push", "FILE... REFERENCE", 2, OPERANDS_MAX, "Push files as one model or dataset",
     "Files become layers in the ModelPack layout; relative paths are kept. FILE may be a folder: all files below it are pushed, by\n"
     "their paths below it; a .git in it is left out. A link to a file of the same folder is followed; a link out of the folder,\n"
     "also an absolute one, is refused without --follow-links. What the registry has is not sent again, and a push that broke\n"
     "goes on where the registry's session is, also through another gateway.",
     OPTIONS(push_options), command_push},
    {"pull", "REFERENCE", 1, 1, "Pull the files of a model or dataset",
     "Every byte is checked against its digest. Names that would leave the folder are refused before anything is\n"
     "written, and no link below the folder is followed; files that are there and match are kept. A pull that broke goes on: what is in .NAME.sijil-part is read and\n"
     "hashed again, and only the rest is asked for. No byte gets the file's name before all of them match the digest.",
     OPTIONS(pull_options), command_pull},
    {"ls", "HOST[:PORT][/NAME]", 1, 1, "List the repositories that you may see",
     "With a NAME, such as acme or acme/models, the repository of that name and those below it alone.", NO_OPTIONS, command_list},
    {"inspect", "REFERENCE", 1, 1, "Show what a reference names: digest, type, size, layers, annotations",
     "Nothing but the manifest is fetched, and it is checked against its digest.", OPTIONS(inspect_options), command_inspect},
    {"tag", "REFERENCE TAG...", 2, OPERANDS_MAX, "Put further tags on what a reference names",
     "The manifest goes back byte for byte: the new tags name the same digest.", NO_OPTIONS, command_tag},
    {"copy", "REFERENCE REFERENCE", 2, 2, "Copy an artifact to another repository or registry",
     "Blobs that the target has are not sent; inside one registry they are mounted where it allows that. Else each goes\n"
     "through an unnamed file of this machine. An index is copied with all that it lists. Signatures and other\n"
     "referrers are artifacts of their own and are not copied along.",
     OPTIONS(copy_options), command_copy},
    {"tags", "REPOSITORY", 1, 1, "List the tags of HOST/ORGANISATION/PROJECT/REPOSITORY", "", NO_OPTIONS, command_tags},
    {"delete", "REFERENCE", 1, 1, "Delete a tag, or a digest with all its tags", "", NO_OPTIONS, command_delete},
    {"audit tail", "HOST[:PORT]", 1, 1, "Show the newest events of the audit log", "", OPTIONS(tail_options),
     command_audit_tail},
    {"audit show", "HOST[:PORT] SEQUENCE", 2, 2, "Show an event, and what it was decided on",
     "Make the decision again with 'sijil-verify replay', which does not trust the registry.", OPTIONS(show_options),
     command_audit_show},
    {"audit proof", "HOST[:PORT] SEQUENCE", 2, 2, "Fetch an event and the proof that it is in the log",
     "Check it with sijil-verify, which needs no network and does not trust the registry.", OPTIONS(proof_options),
     command_audit_proof},
    {"audit key", "HOST[:PORT]", 1, 1, "Show the log's public key, for sijil-verify --key",
     "Keep it when you first see it: a proof is only as good as the key that you compare with.", OPTIONS(key_options),
     command_audit_key},
    {"admin organisation create", "HOST[:PORT] NAME", 2, 2, "Make an organisation", "", NO_OPTIONS,
     command_organisation_create},
    {"admin organisation list", "HOST[:PORT]", 1, 1, "List the organisations that you may see", "", NO_OPTIONS,
     command_organisation_list},
    {"admin organisation delete", "HOST[:PORT] NAME", 2, 2, "Delete an organisation with its projects, robots and roles",
     DELETION, OPTIONS(delete_options), command_organisation_delete},
    {"admin project create", "HOST[:PORT] ORGANISATION/PROJECT", 2, 2, "Make a project with home region and floor label",
     CLASSES, OPTIONS(project_create_options), command_project_create},
    {"admin project delete", "HOST[:PORT] ORGANISATION/PROJECT", 2, 2, "Delete a project with its repositories and roles",
     DELETION, OPTIONS(delete_options), command_project_delete},
    {"admin repository delete", "HOST[:PORT] ORGANISATION/PROJECT/NAME", 2, 2, "Delete a repository with all that is in it",
     DELETION, OPTIONS(delete_options), command_repository_delete},
    {"admin project list", "HOST[:PORT]", 1, 1, "List the projects that you may see", "", NO_OPTIONS,
     command_project_list},
    {"admin project show", "HOST[:PORT] ORGANISATION/PROJECT", 2, 2, "Show one project: its region and its floor label", "",
     NO_OPTIONS, command_project_show},
    {"admin project label", "HOST[:PORT] ORGANISATION/PROJECT JSON", 3, 3, "Raise the floor label of a project",
     "JSON is a label such as {\"class\":\"sensitive\",\"subjects\":[\"health\"]}. " CLASSES, NO_OPTIONS, command_project_label},
    {"admin project quota", "HOST[:PORT] ORGANISATION/PROJECT", 2, 2, "Show or set what a project may have",
     "Without an option it is shown. What is not named stays as it is.", OPTIONS(quota_options), command_project_quota},
    {"admin project rules", "HOST[:PORT] ORGANISATION/PROJECT [FILE]", 2, 3, "Show or set what a project keeps",
     "FILE is a JSON document with retention, untagged_days and immutable. It replaces the rules as a whole.", NO_OPTIONS,
     command_project_rules},
    {"admin gc", "HOST[:PORT] [ORGANISATION/PROJECT]", 1, 2, "Collect garbage: remove what nothing needs any more",
     "First manifests that the projects' rules no longer keep, then blobs that no manifest needs. The registry serves on\n"
     "meanwhile, and the collection goes on without this command.",
     OPTIONS(gc_options), command_gc},
    {"admin robot create", "HOST[:PORT] [ORGANISATION/]NAME", 2, 2, "Make a robot; its secret is shown once", "",
     OPTIONS(robot_create_options), command_robot_create},
    {"admin robot list", "HOST[:PORT]", 1, 1, "List robots", "", NO_OPTIONS, command_robot_list},
    {"admin robot rotate", "HOST[:PORT] ROBOT", 2, 2, "Give a robot a new secret; it is shown once",
     "ROBOT is its name (robot$acme+ci, or acme/ci as it was made) or its id; its roles stay. The old secret, and tokens made from it, end at once, or after\n"
     "--grace. Only somebody who may give each role that the robot has may do this, and nobody for himself.",
     OPTIONS(robot_rotate_options), command_robot_rotate},
    {"admin robot revoke", "HOST[:PORT] ROBOT", 2, 2, "End a robot, its tokens and its uploads at once",
     "ROBOT is its name (robot$acme+ci, or acme/ci as it was made) or its id.", NO_OPTIONS, command_robot_revoke},
    {"admin binding create", "HOST[:PORT] PRINCIPAL ROLE SCOPE", 4, 4, "Give a role to a robot or an issuer's subject",
     "SCOPE is \"\" for the registry, an organisation, a project, or a repository (a pattern may end in /*).\n"
     "ROLE is one of: "
#define ROLE(constant, name, ...) name " "
#include "authz/roles.def"
#undef ROLE
     ,
     OPTIONS(binding_create_options), command_binding_create},
    {"admin binding list", "HOST[:PORT]", 1, 1, "List who has which role where", "", NO_OPTIONS, command_binding_list},
    {"admin binding revoke", "HOST[:PORT] ID", 2, 2, "Take a role away, at once", "", NO_OPTIONS,
     command_binding_revoke},
    {"admin issuer trust", "HOST[:PORT] URL JWKS.json", 3, 3, "Trust an OIDC issuer's tokens; replaces the one of this URL",
     "JWKS.json is the issuer's key set, which is not fetched: give the new one when the issuer changes its keys. Trust alone\n"
     "gives no rights: bind its subjects with \"admin binding create --issuer\".",
     OPTIONS(issuer_trust_options), command_issuer_trust},
    {"admin issuer list", "HOST[:PORT]", 1, 1, "List the trusted issuers", "", NO_OPTIONS, command_issuer_list},
    {"admin issuer remove", "HOST[:PORT] ID", 2, 2, "Trust an issuer no more: its tokens end at once",
     "ID is its id, or its URL. The roles of its subjects stay, and count again if it is trusted again.", NO_OPTIONS, command_issuer_remove},
    {"admin scrub", "HOST[:PORT]", 1, 1, "Verify everything that a region holds",
     "Every record of every blob, every sealed manifest, and whether each object belongs to a row. The server does it, at\n"
     "a bounded rate; ending this command does not end it. Exit status 6 if something was found.",
     OPTIONS(scrub_options), command_scrub},
    {"admin rewrap", "HOST[:PORT]", 1, 1, "Wrap all keys under the newest version of the key-encryption keys",
     "After sijil-keyd --add-version and a restart. No byte of a blob is touched, and reading goes on.",
     OPTIONS(rewrap_options), command_rewrap},
    {"admin deletion-certificate", "HOST[:PORT] ORGANISATION/PROJECT DIGEST", 3, 3,
     "Fetch the certificate that a blob was deleted",
     "Check it with sijil-verify certificate. It says which of two stages is reached: wrapped key forgotten, or also every\n"
     "version of the key-encryption key that it was wrapped under destroyed.",
     OPTIONS(certificate_options), command_deletion_certificate},
    {"admin uploads list", "HOST[:PORT] ORGANISATION[/PROJECT]", 2, 2, "List uploads that have begun and not ended",
     "Whose they are, how many bytes are safe, since when nobody got on with them, and when they end by themselves.", NO_OPTIONS,
     command_uploads_list},
    {"admin uploads cancel", "HOST[:PORT] ORGANISATION/PROJECT ID...", 3, OPERANDS_MAX, "End uploads, whoever began them",
     "What they had reserved of the project's quota is free at once, and their bytes are removed. Their clients are told that\n"
     "the upload is unknown.", NO_OPTIONS, command_uploads_cancel},
    {"admin region list", "HOST[:PORT]", 1, 1, "List the regions: where each is, and whether it can be used", "", NO_OPTIONS,
     command_region_list},
    {"admin keys", "HOST[:PORT]", 1, 1, "Show how many keys are under which version", "", NO_OPTIONS, command_keys},
    {"admin job list", "HOST[:PORT]", 1, 1, "List scrubs, re-wraps and collections, the newest first", "",
     OPTIONS(job_options), command_job_list},
    {"admin job show", "HOST[:PORT] ID", 2, 2, "Show how far one is", "", OPTIONS(job_show_options), command_job_show},
    {"admin job findings", "HOST[:PORT] ID", 2, 2, "Show what a scrub found", "", OPTIONS(job_options), command_job_findings},
    {"admin job stop", "HOST[:PORT] ID", 2, 2, "End one before it is done; what was found or removed stays so", "",
     OPTIONS(job_options), command_job_stop},
    {"policy show", "HOST[:PORT]", 1, 1, "Show which policies are in force",
     "With --document, the whole set: what the next one is made of. A set replaces the one before as a whole.",
     OPTIONS(policy_show_options), command_policy_show},
    {"policy sign", "SET.json", 1, 1, "Sign a policy set with the approver's key", "Needs no registry.",
     OPTIONS(policy_sign_options), command_policy_sign},
    {"policy load", "HOST[:PORT] SET.dsse", 2, 2, "Put a signed policy set into force", "", NO_OPTIONS,
     command_policy_load},
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
