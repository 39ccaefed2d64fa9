/* What an admitted run has made, as sijil-keyd has signed it. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "crypto/keyd_client.h"
#include "gateway/api/run_priv.h"
#include "gateway/pipeline/gateway.h"
#include "training/papers.h"

/* Rows are not believed: the admission names the digests of all envelopes below it, and its signature is sijil-keyd's. */
static struct result check_admission(const struct request *request, const struct run_chain *chain, const char *run,
                                     struct error *err)
{
    OWNED(ecdsa_key) *key = NULL;

    if (chain->order == NULL || chain->lease == NULL || chain->result == NULL)
        return failure(err, ERROR_DENIED, "envelopes below the admission are missing");
    TRY(keyd_signer(request->gateway->keyd, &key, err));
    TRY(run_check_signer(chain->admission, key, err));
    TRY(run_chain_check(chain, err));
    return strcmp(run_text(chain->request, "run"), run) == 0 ? SUCCESS
                                                             : failure(err, ERROR_DENIED, "its envelopes are of another run");
}

static const char *repository_of(const struct run_envelope *order, const char *name)
{
    const json_t *outputs = run_member(order, "spec.outputs");

    for (size_t i = 0; i < json_array_size(outputs); i++)
        if (strcmp(json_text_of(json_array_get(outputs, i), "name"), name) == 0)
            return json_text_of(json_array_get(outputs, i), "repository");
    return NULL;
}

static struct result add_outputs(const struct run_chain *chain, json_t *value, struct error *err)
{
    const json_t *subjects = run_member(chain->admission, "subject");
    OWNED_JSON list = json_array();

    for (size_t i = 0; i < json_array_size(subjects); i++) {
        const json_t *subject = json_array_get(subjects, i);
        const char *name = json_text_of(subject, "name"), *repository = repository_of(chain->order, name);
        char digest[RUN_DIGEST_TEXT];
        (void)snprintf(digest, sizeof digest, "sha256:%.64s", json_text_of(json_object_get(subject, "digest"), "sha256"));
        if (repository != NULL && json_array_append_new(list, json_pack("{s:s, s:s, s:s}", "name", name, "repository", repository,
                                                                        "digest", digest)) != 0)
            return failure(err, ERROR_NO_MEMORY, "no memory for the answer");
    }
    return json_object_set(value, "outputs", list) == 0 ? SUCCESS : failure(err, ERROR_NO_MEMORY, "no memory for the answer");
}

static bool is_ours(enum error_kind kind)
{
    return kind == ERROR_NO_MEMORY || kind == ERROR_UNAVAILABLE;
}

struct result run_add_outputs(const struct request *request, struct pg *pg, const struct uuid *id, json_t *value,
                              struct error *err)
{
    const struct run_papers_query query = {.action = ACTION_RUN_READ, .run = *id, .last = RUN_ADMISSION};
    OWNED(run_papers) *papers = NULL;
    char run[UUID_TEXT_SIZE];
    struct error why = {0};

    uuid_format(id, run);
    struct result checked = run_papers_read(request->permit, pg, &query, &papers, &why);
    if (checked.ok && papers->chain.admission == NULL) return SUCCESS;
    if (checked.ok) checked = check_admission(request, &papers->chain, run, &why);
    if (checked.ok) return add_outputs(&papers->chain, value, err);
    if (is_ours(why.kind)) return failure(err, why.kind, "%s", why.message);
    log_error("the envelopes of a run in the database are not those that sijil-keyd admitted: its outputs are not shown", &why);
    return SUCCESS;
}
