#include "gateway/background/runner_doubts.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "crypto/keyd_client.h"
#include "documents/format/runner_key.h"
#include "documents/view.h"
#include "gateway/pipeline/gateway.h"
#include "training/checkpoint_jobs.h"
#include "training/doubt.h"

/* A part of the runners that were withdrawn. Texts are copied, because the view is locked while it is visited. */
struct withdrawn {
    size_t before, seen; /* as many were looked at before; so many are there */
    size_t looked;       /* in this part */
    size_t count;
    struct run_withdrawal each[RUN_WITHDRAWALS_MAX];
    char keys[RUN_WITHDRAWALS_MAX][ECDSA_THUMBPRINT_SIZE];
    char reasons[RUN_WITHDRAWALS_MAX][RUN_REASON_SIZE];
};

/* A key may be enrolled, and withdrawn, in several scopes: the earliest time counts. */
static size_t place_of(const struct withdrawn *withdrawn, const char *name, const struct runner_key *key)
{
    for (size_t i = 0; i < withdrawn->count; i++)
        if (strcmp(withdrawn->keys[i], name) == 0) return key->since_ms < withdrawn->each[i].since_ms ? i : RUN_WITHDRAWALS_MAX;
    return withdrawn->count;
}

static struct result note_withdrawn(void *context, const struct pinned_document *pinned, struct error *err)
{
    const struct document *document = pinned->document;
    struct withdrawn *withdrawn = context;
    struct runner_key key;

    if (!document->is_withdrawn || withdrawn->seen++ < withdrawn->before || withdrawn->count == RUN_WITHDRAWALS_MAX)
        return SUCCESS;
    TRY(runner_key_read(document, &key, err));
    withdrawn->looked++;
    const size_t at = place_of(withdrawn, document->name, &key);
    if (at == RUN_WITHDRAWALS_MAX) return SUCCESS;
    ecdsa_thumbprint(key.point, withdrawn->keys[at]); /* the name of the document */
    (void)snprintf(withdrawn->reasons[at], sizeof withdrawn->reasons[at], "%s", json_text_of(document->json, "withdrawn"));
    withdrawn->each[at] =
        (struct run_withdrawal){bytes_of_text(withdrawn->keys[at]), key.runner, key.since_ms, withdrawn->reasons[at]};
    if (at == withdrawn->count) withdrawn->count++;
    return SUCCESS;
}

static struct result add_part(struct gateway *gateway, struct pg *pg, struct withdrawn *withdrawn, size_t *count_out,
                              struct error *err)
{
    *count_out = withdrawn->count = withdrawn->seen = withdrawn->looked = 0;
    TRY(document_view_visit_all(gateway->documents, DOCUMENT_RUNNER, note_withdrawn, withdrawn, err));
    if (withdrawn->count == 0) return SUCCESS;
    OWNED(ecdsa_key) *signer = NULL;
    TRY(keyd_signer(gateway->keyd, &signer, err));
    const struct run_withdrawals part = {withdrawn->count, withdrawn->each, signer};
    size_t forgotten = 0;
    TRY(run_doubt_due(gateway->sequencer, pg, &part, count_out, err));
    TRY(run_checkpoint_forget_doubted(gateway->sequencer, pg, &part, &forgotten, err));
    *count_out += forgotten;
    withdrawn->before += withdrawn->looked;
    return SUCCESS;
}

bool runner_doubts_add(struct gateway *gateway, struct pg *pg)
{
    struct withdrawn *withdrawn = memory_zeroed(1, sizeof *withdrawn);
    struct error err = {0};
    size_t count = 0, all = 0;

    if (withdrawn == NULL) return false;
    do {
        if (!add_part(gateway, pg, withdrawn, &count, &err).ok) break;
        all += count;
    } while (withdrawn->before < withdrawn->seen);
    free(withdrawn);
    if (err.kind != ERROR_NONE && err.kind != ERROR_UNAVAILABLE) /* /readyz shows the latter */
        log_error("runs of withdrawn runners are not marked; it is tried again", &err);
    return all > 0;
}
