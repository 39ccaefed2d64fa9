/* sijil-verify checks offline the proofs that a registry gives out. It has no secret, no network and no database. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "audit/format/deletion.h"
#include "audit/format/log_keys.h"
#include "audit/format/proof.h"
#include "audit/format/proof_check.h"
#include "base/file.h"
#include "base/json.h"
#include "base/terminal_text.h"
#include "base/typo.h"
#include "cmd/options.h"
#include "cmd/sijil_verify_certificate.h"
#include "cmd/sijil_verify_compare.h"
#include "cmd/sijil_verify_export.h"
#include "cmd/sijil_verify_fsck.h"
#include "cmd/sijil_verify_policy.h"
#include "cmd/sijil_verify_replay.h"
#include "cmd/sijil_verify_report.h"
#include "cmd/sijil_verify_run.h"
#include "cmd/sijil_verify_succession.h"
#include "policy/set_export.h"
#include "policy/set_text.h"
#include "training/format/bundle.h"

enum { EXIT_VERIFIED = 0, EXIT_NOT_VERIFIED = 1, EXIT_USAGE = 2 };

struct settings {
    const char *key, *entry, *signer, *root, *file, *run, *manifest, *content, *nonce, *memory, *threads, *dump, *output,
        *evidence, *second, *witness_policy, *heads, *heads_key, *heads_proofs[2];
    const char *officers[SUCCESSION_OFFICERS_MAX]; /* the root, and all signers */
    size_t set_count, signer_count;
    const char *sets[VERIFY_SETS_MAX + 1]; /* NULL at the end */
    bool json, admitted;
};

static int misused(const char *what)
{
    (void)fprintf(stderr, "sijil-verify: %s\nTry 'sijil-verify --help' for more information.\n", what);
    return EXIT_USAGE;
}

static int show(const char *text)
{
    return fputs(text, stdout) >= 0 && fflush(stdout) == 0 ? EXIT_VERIFIED : EXIT_USAGE;
}

static struct result read_all(int fd, const char *name, struct buffer *content, struct error *err)
{
    uint8_t block[4096]; /* a page at a time */

    for (;;) {
        const ssize_t count = read(fd, block, sizeof block);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return failure(err, ERROR_UNAVAILABLE, "%.180s: %s", name, strerror(errno));
        if (count == 0) return SUCCESS;
        const struct result added = buffer_add(content, block, (size_t)count, err);
        if (!added.ok && err->kind == ERROR_LIMIT)
            return failure(err, ERROR_LIMIT, "%.180s is larger than anything of this kind", name);
        TRY(added);
    }
}

static struct result read_file(const char *name, struct buffer *content, struct error *err)
{
    OWNED_FD fd = -1;

    if (strcmp(name, "-") == 0) return read_all(STDIN_FILENO, "standard input", content, err);
    TRY(file_open(name, O_RDONLY, 0, &fd, err));
    return read_all(fd, name, content, err);
}

static int refuse(const struct settings *settings, const struct error *err)
{
    struct buffer OWNED_BUFFER reason = BUFFER(2048);
    struct error unwritten;
    const bool is_verdict = err->kind == ERROR_DENIED;
    struct error shown = *err; /* it may quote the file, which others have made */

    terminal_sanitize(shown.message);
    (void)fprintf(stderr, "sijil-verify: %s%s\n", is_verdict ? "NOT verified: " : "", shown.message);
    if (settings->json)
        (void)printf("{\"verified\":false,\"reason\":%s}\n",
                     json_write_string(&reason, bytes_of_text(err->message), &unwritten).ok ? buffer_text(&reason)
                                                                                            : "\"no memory to say why\"");
    return is_verdict ? EXIT_NOT_VERIFIED : EXIT_USAGE;
}

/* The caller has read the verifier's own key before. So a malformed input is one that is not verified. */
static struct result as_verdict(struct result checked, struct error *err)
{
    if (!checked.ok && (err->kind == ERROR_INVALID || err->kind == ERROR_LIMIT)) err->kind = ERROR_DENIED;
    return checked;
}

/* It is the user's own file: a mistake in it is no verdict. */
static struct result read_policy(const struct settings *settings, struct witness_policy **policy_out, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(WITNESS_POLICY_BYTES_MAX);

    if (settings->witness_policy == NULL) return SUCCESS;
    TRY(read_file(settings->witness_policy, &text, err));
    return witness_policy_read(buffer_bytes(&text), policy_out, err);
}

static struct result check(const struct settings *settings, struct buffer *answer, struct error *err)
{
    struct buffer OWNED_BUFFER entry = BUFFER(MERKLE_ENTRY_MAX);
    struct buffer OWNED_BUFFER proof = BUFFER(TLOG_PROOF_MAX);
    OWNED(witness_policy) *policy = NULL;
    struct proof_report report;
    struct log_keys keys;

    TRY(log_keys_read(bytes_of_text(settings->key), &keys, err));
    TRY(read_policy(settings, &policy, err));
    const struct proof_trust trust = {.vkey = bytes_of_text(settings->key), .policy = policy};
    TRY(read_file(settings->entry, &entry, err));
    TRY(read_file(settings->file, &proof, err));
    TRY(as_verdict(proof_check_cosigned(&trust, buffer_bytes(&entry), buffer_bytes(&proof), &report, err), err));
    return settings->json ? proof_report_json(&report, answer, err) : proof_report_text(&report, answer, err);
}

static struct result check_certificate(const struct settings *settings, struct buffer *answer, struct error *err)
{
    struct certificate_request request = {.key = settings->key, .signer = settings->signer, .json = settings->json};
    struct buffer OWNED_BUFFER bundle = BUFFER(DELETION_BUNDLE_MAX);
    OWNED(witness_policy) *policy = NULL;

    TRY(read_policy(settings, &policy, err));
    request.policy = policy;
    TRY(read_file(settings->file, &bundle, err));
    return certificate_verify_answer(&request, buffer_bytes(&bundle), answer, err);
}

static int run_certificate(const struct settings *settings)
{
    struct buffer OWNED_BUFFER answer = BUFFER(65536);
    struct error err = {0};

    if (settings->key == NULL || settings->signer == NULL || settings->file == NULL || settings->entry != NULL)
        return misused("--key, --signer and a certificate's file are needed");
    return check_certificate(settings, &answer, &err).ok ? show(buffer_text(&answer)) : refuse(settings, &err);
}

static int run_replay(const struct settings *settings)
{
    struct replay_request request = {
        .signer = settings->signer, .file = settings->file, .set_count = settings->set_count, .json = settings->json};
    struct buffer OWNED_BUFFER answer = BUFFER(65536);
    struct error err = {0};
    bool is_sound = false;

    if (settings->key != NULL || settings->entry != NULL || settings->file == NULL)
        return misused("an export's file is needed, with the policy sets of its decisions (--set), and no --key or --entry");
    memcpy(request.sets, settings->sets, sizeof request.sets);
    if (!replay_file(&request, &answer, &is_sound, &err).ok) return refuse(settings, &err);
    const int shown = show(buffer_text(&answer));
    return shown != EXIT_VERIFIED || is_sound ? shown : EXIT_NOT_VERIFIED;
}

static struct result check_run(const struct settings *settings, struct buffer *answer, struct error *err)
{
    OWNED(witness_policy) *policy = NULL;
    struct run_request request = {.key = settings->key,
                                  .signer = settings->signer,
                                  .root = settings->root,
                                  .json = settings->json,
                                  .run = settings->run,
                                  .manifest = settings->manifest,
                                  .file = settings->content,
                                  .sets = settings->sets,
                                  .admitted = settings->admitted};
    struct buffer OWNED_BUFFER bundle = BUFFER(RUN_BUNDLE_MAX);

    TRY(read_policy(settings, &policy, err));
    request.policy = policy;
    TRY(read_file(settings->file, &bundle, err));
    return run_verify_answer(&request, buffer_bytes(&bundle), answer, err);
}

static int run_training(const struct settings *settings)
{
    struct buffer OWNED_BUFFER answer = BUFFER(RUN_REPORT_MAX);
    struct error err = {0};

    if (settings->key == NULL || settings->signer == NULL || settings->root == NULL || settings->file == NULL ||
        settings->entry != NULL)
        return misused("--key, --signer, --root and a bundle's file are needed, and no --entry");
    if (settings->content != NULL && settings->manifest == NULL)
        return misused("--file needs --manifest: the run names the manifest, and the manifest names its files");
    return check_run(settings, &answer, &err).ok ? show(buffer_text(&answer)) : refuse(settings, &err);
}

static int run_proof(const struct settings *settings)
{
    struct buffer OWNED_BUFFER answer = BUFFER(65536);
    struct error err = {0};

    if (settings->key == NULL || settings->entry == NULL || settings->file == NULL || settings->signer != NULL)
        return misused("--key, --entry and a proof file are needed");
    if (strcmp(settings->entry, "-") == 0 && strcmp(settings->file, "-") == 0)
        return misused("only one file can be standard input");
    return check(settings, &answer, &err).ok ? show(buffer_text(&answer)) : refuse(settings, &err);
}

static int run_export(const struct settings *settings)
{
    struct export_request request = {
        .key = settings->key, .nonce = settings->nonce, .file = settings->file, .json = settings->json};
    struct buffer OWNED_BUFFER answer = BUFFER(65536);
    OWNED(witness_policy) *policy = NULL;
    struct error err = {0};

    if ((settings->heads == NULL) != (settings->heads_key == NULL) ||
        (settings->heads == NULL && settings->heads_proofs[0] != NULL))
        return misused("--heads and --heads-key go together; --heads-proof belongs to them");
    request.heads = settings->heads;
    request.heads_proofs[0] = settings->heads_proofs[0];
    request.heads_proofs[1] = settings->heads_proofs[1];
    request.auditor = settings->heads_key;
    if (settings->key == NULL || settings->file == NULL || settings->signer != NULL || settings->entry != NULL)
        return misused("--key and the file of an export are needed, and no --entry or --signer");
    if (!read_policy(settings, &policy, &err).ok) return refuse(settings, &err);
    request.policy = policy;
    return export_verify_file(&request, &answer, &err).ok ? show(buffer_text(&answer)) : refuse(settings, &err);
}

static int check_dump(const struct settings *settings, bool heads)
{
    const struct fsck_request request = {.key = settings->key,
                                         .file = settings->file,
                                         .memory = settings->memory,
                                         .threads = settings->threads,
                                         .json = settings->json,
                                         .heads = heads};
    struct buffer OWNED_BUFFER answer = BUFFER(65536);
    struct error err = {0};
    bool is_sound = false;

    if (settings->key == NULL || settings->file == NULL || settings->signer != NULL || settings->entry != NULL)
        return misused("--key and the file of a dump are needed ('-': standard input), and no --entry or --signer");
    if (!fsck_file(&request, &answer, &is_sound, &err).ok) return refuse(settings, &err);
    const int shown = show(buffer_text(&answer));
    return shown != EXIT_VERIFIED || is_sound ? shown : EXIT_NOT_VERIFIED;
}

static int run_fsck(const struct settings *settings)
{
    return check_dump(settings, false);
}

static int run_keys(const struct settings *settings)
{
    return check_dump(settings, true);
}

static int run_compare(const struct settings *settings)
{
    const struct compare_request request = {.key = settings->key,
                                            .first = settings->file,
                                            .second = settings->second,
                                            .dump = settings->dump,
                                            .evidence = settings->evidence,
                                            .output = settings->output};
    struct buffer OWNED_BUFFER answer = BUFFER(65536);
    struct error err = {0};
    bool is_one_log = false;

    if (settings->key == NULL || (settings->evidence == NULL) != (settings->second != NULL) ||
        (settings->evidence != NULL && settings->file != NULL))
        return misused("--key and two checkpoints are needed, or --key and --evidence");
    if (!compare_checkpoints(&request, &answer, &is_one_log, &err).ok) return refuse(settings, &err);
    return show(buffer_text(&answer)) != EXIT_VERIFIED ? EXIT_USAGE : is_one_log ? EXIT_VERIFIED : EXIT_NOT_VERIFIED;
}

static int run_succession(const struct settings *settings)
{
    struct succession_request request = {.key = settings->key,
                                         .file = settings->file,
                                         .set = settings->sets[0],
                                         .entry = settings->entry,
                                         .proof = settings->second,
                                         .json = settings->json};
    struct buffer OWNED_BUFFER answer = BUFFER(65536);
    OWNED(witness_policy) *policy = NULL;
    struct error err = {0};

    if (settings->key == NULL || settings->root == NULL || settings->file == NULL || settings->set_count > 1 ||
        (settings->entry == NULL) != (settings->second == NULL))
        return misused(
            "--key of the log that ended, --root and --signer for the keys of two officers or more (--root alone: one is enough for you), and the signed plan are needed; --entry needs the file of its proof, and one --set at most is given");
    memcpy(request.officers, settings->officers, sizeof request.officers);
    if (!read_policy(settings, &policy, &err).ok) return refuse(settings, &err);
    request.policy = policy;
    return succession_verify_file(&request, &answer, &err).ok ? show(buffer_text(&answer)) : refuse(settings, &err);
}

static struct result check_set(const struct settings *settings, struct buffer *answer, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(SET_EXPORT_MAX);
    OWNED(witness_policy) *policy = NULL;
    struct policy_request request = {.key = settings->key, .root = settings->root, .json = settings->json};

    TRY(read_policy(settings, &policy, err));
    request.policy = policy;
    TRY(read_file(settings->file, &text, err));
    return policy_verify_answer(&request, buffer_bytes(&text), answer, err);
}

static int run_policy(const struct settings *settings)
{
    struct buffer OWNED_BUFFER answer = BUFFER(SET_TEXT_MAX);
    struct error err = {0};

    if (settings->key == NULL || settings->root == NULL || settings->file == NULL || settings->signer != NULL ||
        settings->entry != NULL)
        return misused("--key, --root and the file of 'sijil policy export' are needed, and no --entry or --signer");
    if (!check_set(settings, &answer, &err).ok) return refuse(settings, &err);
    return show(buffer_text(&answer));
}

static int run_report(const struct settings *settings)
{
    struct buffer OWNED_BUFFER answer = BUFFER(65536);
    OWNED(witness_policy) *policy = NULL;
    struct error err = {0};
    bool is_sound = false;

    if (settings->key == NULL || settings->file == NULL || settings->signer != NULL || settings->entry != NULL ||
        settings->set_count > (settings->root == NULL ? 0 : 1))
        return misused("--key and a residency report are needed, no --entry or --signer, and beside --root at most one --set");
    if (!read_policy(settings, &policy, &err).ok) return refuse(settings, &err);
    const struct report_request request = {settings->key,    settings->sets[0],  settings->root, settings->file,
                                           settings->second, settings->evidence, policy,         settings->json};
    if (!report_verify(&request, &answer, &is_sound, &err).ok) return refuse(settings, &err);
    return show(buffer_text(&answer)) != EXIT_VERIFIED ? EXIT_USAGE : is_sound ? EXIT_VERIFIED : EXIT_NOT_VERIFIED;
}

static const struct subject {
    const char *name;
    int (*run)(const struct settings *settings);
} subjects[] = {{"proof", run_proof},           {"certificate", run_certificate},
                {"replay", run_replay},         {"run", run_training},
                {"export", run_export},         {"fsck", run_fsck},
                {"replay-keys", run_keys},      {"compare", run_compare},
                {"succession", run_succession}, {"policy", run_policy},
                {"report", run_report}};

static int unknown_command(const char *given)
{
    const char *nearest = NULL;
    unsigned best = TYPO_BEST;
    char why[160];

    for (size_t i = 0; i < sizeof subjects / sizeof subjects[0]; i++)
        if (typo_is_near(given, subjects[i].name, &best)) nearest = subjects[i].name;
    (void)snprintf(why, sizeof why,
                   nearest == NULL ? "there is no command '%.60s'" : "there is no command '%.60s'; did you mean '%s'?", given,
                   nearest);
    return misused(why);
}

static bool is_of_dump(const char *command)
{
    return strcmp(command, "fsck") == 0 || strcmp(command, "replay-keys") == 0;
}

static bool takes_witness_policy(const char *command)
{
    return !is_of_dump(command) && strcmp(command, "replay") != 0 && strcmp(command, "compare") != 0;
}

static int run(struct settings *settings, char *const *operands, int count)
{
    const bool is_comparison = count > 0 && strcmp(operands[0], "compare") == 0;
    const bool is_succession = count > 0 && strcmp(operands[0], "succession") == 0;
    const bool is_run = count > 0 && strcmp(operands[0], "run") == 0, is_policy = count > 0 && strcmp(operands[0], "policy") == 0;
    const bool is_report = count > 0 && strcmp(operands[0], "report") == 0;

    if (count > (is_comparison || is_succession || is_report ? 3 : 2)) return misused("more files than the command takes");
    if (count >= 2) settings->file = operands[1];
    if (count == 3) settings->second = operands[2];
    if (!is_comparison && (settings->dump != NULL || settings->output != NULL || (settings->evidence != NULL && !is_report)))
        return misused("--dump and --output are for comparisons, --evidence for comparisons and reports");
    if (settings->set_count > 0 && !is_succession && !is_run && !is_report && (count == 0 || strcmp(operands[0], "replay") != 0))
        return misused("--set is for replays, runs, reports and successions");
    if (settings->signer_count > 1 && !is_succession) return misused("more than one --signer is for successions");
    const bool is_of_run = (settings->root != NULL && !is_succession && !is_policy && !is_report) || settings->admitted ||
                           settings->run != NULL || settings->manifest != NULL || settings->content != NULL;
    if (is_of_run && !is_run)
        return misused("--root is for runs, successions, sets and reports; for runs alone --run, --admitted, --manifest, --file");
    if ((settings->nonce != NULL || settings->heads != NULL) && (count == 0 || strcmp(operands[0], "export") != 0))
        return misused("--nonce and --heads are for exports");
    if ((settings->memory != NULL || settings->threads != NULL) && (count == 0 || !is_of_dump(operands[0])))
        return misused("--memory and --threads are for dumps: fsck and replay-keys");
    if (settings->witness_policy != NULL && count > 0 && !takes_witness_policy(operands[0]))
        return misused("--witness-policy is for files with a checkpoint: no other one has cosignatures of witnesses");
    for (size_t i = 0; count > 0 && i < sizeof subjects / sizeof subjects[0]; i++)
        if (strcmp(operands[0], subjects[i].name) == 0) return subjects[i].run(settings);
    return count == 0
               ? misused(
                     "a command is missing: proof, export, certificate, replay, run, fsck, replay-keys, compare, succession, policy or report")
               : unknown_command(operands[0]);
}

int main(int argc, char **argv)
{
    struct option options[PROGRAM_OPTIONS_MAX + 1];
    struct settings settings = {0};

    program_long_options(&verify_program, options);
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case VERIFY_KEY: settings.key = optarg; break;
        case VERIFY_ENTRY: settings.entry = optarg; break;
        case VERIFY_SIGNER:
            if (settings.signer_count == SUCCESSION_OFFICERS_MAX - 1) return misused("too many signers");
            settings.officers[++settings.signer_count] = settings.signer = optarg;
            break;
        case VERIFY_ROOT: settings.root = settings.officers[0] = optarg; break;
        case VERIFY_SET:
            if (settings.set_count == VERIFY_SETS_MAX) return misused("too many policy sets");
            settings.sets[settings.set_count++] = optarg;
            break;
        case VERIFY_RUN: settings.run = optarg; break;
        case VERIFY_ADMITTED: settings.admitted = true; break;
        case VERIFY_MANIFEST: settings.manifest = optarg; break;
        case VERIFY_FILE: settings.content = optarg; break;
        case VERIFY_NONCE: settings.nonce = optarg; break;
        case VERIFY_MEMORY: settings.memory = optarg; break;
        case VERIFY_THREADS: settings.threads = optarg; break;
        case VERIFY_DUMP: settings.dump = optarg; break;
        case VERIFY_OUTPUT: settings.output = optarg; break;
        case VERIFY_EVIDENCE: settings.evidence = optarg; break;
        case VERIFY_WITNESS_POLICY: settings.witness_policy = optarg; break;
        case VERIFY_HEADS: settings.heads = optarg; break;
        case VERIFY_HEADS_KEY: settings.heads_key = optarg; break;
        case VERIFY_HEADS_PROOF: settings.heads_proofs[settings.heads_proofs[0] != NULL] = optarg; break;
        case VERIFY_JSON: settings.json = true; break;
        case VERIFY_HELP: program_print_help(stdout, &verify_program); return show("");
        case VERIFY_VERSION: return show("sijil-verify " SIJIL_VERSION "\n");
        default: return misused("an option is not known or lacks its value");
        }
    }
    return run(&settings, argv + optind, argc - optind);
}
