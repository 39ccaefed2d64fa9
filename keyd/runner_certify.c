#include "keyd/runner_certify.h"

#include <string.h>

#include "crypto/runner_certificate.h"
#include "documents/format/runner_key.h"

#define LIFE_MS (RUNNER_CERTIFICATE_DAYS * INT64_C(86400000))

static struct result check_document(const struct document *document, int64_t now_ms, struct error *err)
{
    if (document->kind != DOCUMENT_RUNNER) return failure(err, ERROR_INVALID, "only a runner gets a certificate");
    if (document->is_withdrawn) return failure(err, ERROR_DENIED, "the runner was withdrawn: enrol another one");
    if (document->expires_ms <= now_ms)
        return failure(err, ERROR_DENIED, "the document of the runner has expired: enrol it anew");
    if (document->effective_ms > now_ms + RUNNER_CERTIFICATE_SKEW_MS)
        return failure(err, ERROR_DENIED, "the document of the runner is not in force yet");
    return SUCCESS;
}

static struct result check_pinned(struct ledger *ledger, const struct document_chain_request *request,
                                  const struct document *document, struct error *err)
{
    struct document_chain chain = {.sequence = request->sequence, .later = request->later};
    struct ledger_state state;

    memcpy(chain.before, request->before, sizeof chain.before);
    ledger_read(ledger, &state);
    return document_check_chain(document, &chain, &state.pins[document_kind(document->kind)->number - 1], err);
}

struct result runner_certify(const struct keyd *keyd, const struct document_chain_request *request, int64_t now_ms,
                             struct buffer *der, struct error *err)
{
    struct runner_certificate wanted = {.not_before_ms = now_ms, .not_after_ms = now_ms + LIFE_MS};
    OWNED(document) *document = NULL;
    struct runner_key key;

    TRY(document_read(request->envelopes, request->envelope_count, &document, err));
    TRY(check_document(document, now_ms, err));
    TRY(runner_key_read(document, &key, err));
    TRY(check_pinned(keyd->ledger, request, document, err));
    TRY(key_register_check(keyd->keys, document->name, err));
    wanted.runner = key.runner;
    memcpy(wanted.point, key.point, sizeof wanted.point);
    if (document->expires_ms < wanted.not_after_ms) wanted.not_after_ms = document->expires_ms;
    return runner_certificate_issue(&wanted, keyring_runner_key(keyd->keyring), der, err);
}
