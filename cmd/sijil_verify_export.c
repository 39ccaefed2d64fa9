/* sijil-verify export: whether a file has all events under one key in a range. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "audit/format/add_checkpoint.h"
#include "audit/format/export_check.h"
#include "base/file.h"
#include "cmd/sijil_verify_export.h"

#define BLOCK_SIZE ((size_t)64 << 10)

/* What can't be read as an export is not verified: the verifier's own key was read before. */
static struct result as_verdict(struct result checked, struct error *err)
{
    if (!checked.ok && (err->kind == ERROR_INVALID || err->kind == ERROR_LIMIT)) err->kind = ERROR_DENIED;
    return checked;
}

static struct result check_all(int fd, const char *name, struct export_check *check, struct error *err)
{
    uint8_t block[BLOCK_SIZE];

    for (;;) {
        const ssize_t count = read(fd, block, sizeof block);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return failure(err, ERROR_UNAVAILABLE, "%.180s: %s", name, strerror(errno));
        if (count == 0) return SUCCESS;
        TRY(as_verdict(export_check_bytes(check, (struct bytes){block, (size_t)count}, err), err));
    }
}

static struct result check_file(const char *name, struct export_check *check, struct error *err)
{
    OWNED_FD fd = -1;

    if (strcmp(name, "-") == 0) return check_all(STDIN_FILENO, "standard input", check, err);
    TRY(file_open(name, O_RDONLY, 0, &fd, err));
    return check_all(fd, name, check, err);
}

static struct result check_heads(const struct export_request *request, struct export_report *report, struct error *err)
{
    struct buffer OWNED_BUFFER note = BUFFER(HEADS_NOTE_MAX), first = BUFFER(ADD_CHECKPOINT_MAX),
                               second = BUFFER(ADD_CHECKPOINT_MAX);

    if (request->heads == NULL) return SUCCESS;
    TRY(file_read(request->heads, &note, err));
    if (request->heads_proofs[0] != NULL) TRY(file_read(request->heads_proofs[0], &first, err));
    if (request->heads_proofs[1] != NULL) TRY(file_read(request->heads_proofs[1], &second, err));
    const struct heads_evidence evidence = {
        bytes_of_text(request->auditor), buffer_bytes(&note), {buffer_bytes(&first), buffer_bytes(&second)}};
    return as_verdict(heads_check(&evidence, &report->checkpoint, report->closing, &report->heads, err), err);
}

struct result export_verify_file(const struct export_request *request, struct buffer *answer, struct error *err)
{
    OWNED(export_check) *check = NULL;
    struct export_report report;

    const struct proof_trust trust = {.vkey = bytes_of_text(request->key), .policy = request->policy};

    TRY(export_check_new(&trust, &check, err));
    TRY(check_file(request->file, check, err));
    TRY(export_check_end(check, &report, err));
    if (request->nonce != NULL && strcmp(request->nonce, report.terms.nonce) != 0)
        return failure(err, ERROR_DENIED,
                       "the export has the nonce %s, and not yours: it is the answer to another question, perhaps an older one",
                       report.terms.nonce);
    TRY(check_heads(request, &report, err));
    report.has_own_nonce = request->nonce != NULL;
    return request->json ? export_report_json(&report, answer, err) : export_report_text(&report, answer, err);
}
