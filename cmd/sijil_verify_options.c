#include "cmd/options.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct option_row rows[] = {
    {VERIFY_KEY, "key", "VKEY",
     "public key of the log, as 'sijil audit key' printed it when you first trusted it; with the handovers to newer keys behind it, if there are any"},
    {VERIFY_ENTRY, "entry", "FILE", "the entry, byte for byte (entry.json of 'sijil audit proof')"},
    {VERIFY_SIGNER, "signer", "FILE",
     "certificates and runs: public key of documents (PEM), as 'sijil audit key --documents' printed it when you first trusted it; "
     "replay: public key of the root of approvers, for the signatures of policy sets; successions: of the second officer; repeat it for each further one"},
    {VERIFY_ROOT, "root", "FILE",
     "runs, policy sets and reports: public key (PEM) of the root of approvers, as you pinned it; successions: of the first officer"},
    {VERIFY_SET, "set", "FILE",
     "replay: a policy set that was in force, as it was loaded, or the file of 'sijil policy export'; repeat it for each set; "
     "replay and runs: a restriction of an organisation, as 'sijil policy restriction show --json' printed it, or the file of 'sijil policy export --organisation', which shows who has signed it; "
     "reports: the file of 'sijil policy export', which shows who has signed sets and restrictions; "
     "successions: the one in force, which says how many persons the root is, and so how many must have signed"},
    {VERIFY_RUN, "run", "ID",
     "runs: the bundle of another run is not verified; without it the bundle may be of any run of the registry"},
    {VERIFY_ADMITTED, "admitted", NULL, "runs: a run that was not admitted is not verified"},
    {VERIFY_MANIFEST, "manifest", "FILE", "runs: whether this is the manifest of an admitted output ('sijil inspect --raw')"},
    {VERIFY_FILE, "file", "FILE", "runs, with --manifest: whether this file is in that output"},
    {VERIFY_NONCE, "nonce", "HEX",
     "exports: the nonce that you have chosen, or that 'sijil audit export' has told; an older export has another one"},
    {VERIFY_MEMORY, "memory", "SIZE", "dumps: the most memory, such as 1G; default: 256M. A longer log is read several times"},
    {VERIFY_THREADS, "threads", "N", "dumps: default: one for each processor"},
    {VERIFY_DUMP, "dump", "FILE", "comparisons: a dump of the longer log, if there is no proof"},
    {VERIFY_OUTPUT, "output", "FILE", "comparisons: write the evidence of a fork there"},
    {VERIFY_EVIDENCE, "evidence", "FILE",
     "comparisons: check such evidence, in place of two checkpoints; reports: their evidence, if it is not NAME.evidence.ndjson beside NAME.json"},
    {VERIFY_WITNESS_POLICY, "witness-policy", "FILE",
     "proofs, exports, certificates, runs, policy sets and reports: the witnesses that you trust, and their quorum (C2SP tlog-policy). Without a quorum of cosignatures on the "
     "checkpoint it is not verified. Never take the policy from the registry"},
    {VERIFY_HEADS, "heads", "FILE",
     "exports: the statement of an auditor that has replayed the whole log (sijil-witness --cosign-heads)"},
    {VERIFY_HEADS_KEY, "heads-key", "VKEY", "exports: the key of that auditor, which you trust"},
    {VERIFY_HEADS_PROOF, "heads-proof", "FILE",
     "exports: the proof between the checkpoint of the export and the statement (sijil audit consistency); or twice: from each of them to one later "
     "checkpoint"},
    {VERIFY_JSON, "json", NULL, "answer in JSON"},
    {VERIFY_HELP, "help", NULL, "show this text and end"},
    {VERIFY_VERSION, "version", NULL, "show the version and end"},
};
static const struct option_group groups[] = {{"", rows, COUNT(rows)}};
static const char *const synopses[] = {
    "proof --key=VKEY --entry=FILE [--witness-policy=FILE] PROOF-FILE [--json]",
    "export --key=VKEY [--nonce=HEX] [--witness-policy=FILE] [--heads=FILE --heads-key=VKEY [--heads-proof=FILE]...] FILE [--json]",
    "certificate --key=VKEY --signer=FILE [--witness-policy=FILE] CERTIFICATE-FILE [--json]",
    "replay --set=FILE... [--signer=FILE] EXPORT-FILE [--json]",
    "run --key=VKEY --signer=FILE --root=FILE [--set=FILE...] [--witness-policy=FILE] [--run=ID] [--admitted] [--manifest=FILE [--file=FILE]] BUNDLE-FILE [--json]",
    "fsck --key=VKEY [--memory=SIZE] [--threads=N] DUMP-FILE [--json]",
    "replay-keys --key=VKEY [--memory=SIZE] [--threads=N] DUMP-FILE",
    "compare --key=VKEY [--dump=FILE] [--output=FILE] CHECKPOINT-FILE CHECKPOINT-FILE",
    "compare --key=VKEY --evidence=FILE",
    "succession --key=VKEY --root=FILE [--signer=FILE...] [--set=FILE] [--witness-policy=FILE] PLAN-FILE [--entry=FILE PROOF-FILE] [--json]",
    "policy --key=VKEY --root=FILE [--witness-policy=FILE] SET-FILE [--json]",
    "report --key=VKEY [--root=FILE [--set=FILE]] [--evidence=FILE] [--witness-policy=FILE] REPORT-FILE [PAGE-FILE] [--json]",
    NULL};
static const char *const see_also[] = {"sijil(1)", "sijil-audit-dump(8)", NULL};

const struct program verify_program = {
    .name = "sijil-verify",
    .section = 1,
    .summary = "checks proofs and decisions of a registry's audit log, offline",
    .synopses = synopses,
    .about =
        "Check that an entry is in a registry's audit log, that an export of it is complete, make recorded decisions again, check a whole training run, a policy set, a residency report, or a whole log, "
        "without asking the registry.",
    .groups = groups,
    .group_count = COUNT(groups),
    .closing =
        "PROOF-FILE is entry.tlog-proof of 'sijil audit proof', or any C2SP tlog-proof.\n"
        "The FILE of an export is that of 'sijil audit export', in any of its formats.\n"
        "EXPORT-FILE has the answers of 'sijil audit show --json', one a line. Events of version 1 are not replayable.\n"
        "BUNDLE-FILE has a training run: its signed envelopes, the documents of their keys, proofs and decisions.\n"
        "DUMP-FILE is a dump of 'sijil-audit-dump'. 'replay-keys' prints the statement about the heads of all keys.\n"
        "A CHECKPOINT-FILE has a signed note, or the answer to GET /api/v1/audit/consistency.\n"
        "A PLAN-FILE says that a log goes on under a new origin, signed by two officers (docs/recovery.md); 'succession' tells the new key.\n"
        "Without --signer it verifies a plan that the root of approvers alone has signed, as a registry with one administrator has it, and says so.\n"
        "A SET-FILE is that of 'sijil policy export': the signed policy set, the log's event that loaded it, and, where several persons sign, what shows how many must. Or it is that of 'sijil admin hold export': a legal hold, or its release.\n"
        "A REPORT-FILE is NAME.json of 'sijil report residency', with NAME.evidence.ndjson beside it. PAGE-FILE is a page or the CSV of it.\n"
        "Without --root 'report' does not check the signatures of policy sets.\n"
        "Without --signer 'replay' does not check the signatures of policy sets.\n"
        "A FILE other than a policy set or a report may be '-' for standard input.",
    .exit_status =
        "0 verified, 1 not verified (also: a decision differs, its policy set was not given, an export is empty, a file is not what it should be, a dump has a finding, two checkpoints are of two logs), "
        "2 the command line is wrong or a file can't be read.",
    .see_also = see_also,
};
