#include "policy/run_restrictions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "crypto/digest.h"
#include "documents/format/restriction.h"
#include "policy/no_memory_priv.h"
#include "policy/restriction.h"
#include "training/format/bundle.h"

#define ORGANISATIONS_MAX (RUN_ARTIFACTS_MAX + 16) /* of all repositories: artifacts and outputs */
#define NAME_ROOM         64

struct run_restrictions {
    size_t count;
    struct {
        char organisation[NAME_ROOM];
        struct policy_documents *documents;
    } each[ORGANISATIONS_MAX];
};

void run_restrictions_free(struct run_restrictions *restrictions)
{
    if (restrictions == NULL) return;
    for (size_t i = 0; i < restrictions->count; i++) policy_documents_free(restrictions->each[i].documents);
    free(restrictions);
}

const struct policy_documents *run_restrictions_documents(const struct run_restrictions *restrictions,
                                                          const struct policy_set *set, const char *repository)
{
    const size_t length = strcspn(repository, "/");

    for (size_t i = 0; restrictions != NULL && i < restrictions->count; i++)
        if (strncmp(restrictions->each[i].organisation, repository, length) == 0 &&
            restrictions->each[i].organisation[length] == '\0')
            return restrictions->each[i].documents;
    return policy_set_documents(set);
}

/* ---- of the day ---- */

/* What is looked for, and where. */
struct finding {
    const struct run_bundle *bundle;
    const struct run_day *day;
    const struct policy_set *set;
    struct run_restrictions *found;
};

static const char *text_of(const struct run_bundle *bundle, const uint8_t digest[32])
{
    const json_t *texts = json_object_get(bundle->json, "restrictions");
    uint8_t each[SHA256_SIZE];

    for (size_t i = 0; i < json_array_size(texts); i++) {
        const char *text = json_string_value(json_array_get(texts, i));
        sha256_of(bytes_of_text(text), each);
        if (memcmp(each, digest, sizeof each) == 0) return text;
    }
    return NULL;
}

static struct result add_policy(const struct finding *finding, const uint8_t digest[32], json_t *policies, struct error *err)
{
    const char *text = text_of(finding->bundle, digest);
    OWNED(document) *document = NULL;
    const json_t *policy = NULL;

    if (text == NULL)
        return failure(err, ERROR_UNAVAILABLE,
                       "the bundle does not have a restriction of the organisation that is in force: ask again");
    TRY(document_read_payload(DOCUMENT_RESTRICTION, bytes_of_text(text), &document, err));
    TRY(restriction_read(document, &policy, err));
    return json_array_append(policies, (json_t *)(uintptr_t)policy) == 0 ? SUCCESS : policy_no_memory(err);
}

static struct result join(const struct finding *finding, const char *organisation, size_t count, uint8_t (*digests)[SHA256_SIZE],
                          struct error *err)
{
    struct run_restrictions *found = finding->found;
    OWNED_JSON policies = json_array();

    if (policies == NULL) return policy_no_memory(err);
    if (count > RUN_RESTRICTIONS_MAX)
        return failure(err, ERROR_DENIED, "the organisation %.63s has more than %d restrictions", organisation,
                       RUN_RESTRICTIONS_MAX);
    for (size_t i = 0; i < count; i++) TRY(add_policy(finding, digests[i], policies, err));
    TRY(policy_restrictions_join(finding->set, policies, &found->each[found->count].documents, err));
    (void)snprintf(found->each[found->count++].organisation, NAME_ROOM, "%s", organisation);
    return SUCCESS;
}

static bool is_known(const struct run_restrictions *found, const char *organisation)
{
    for (size_t i = 0; i < found->count; i++)
        if (strcmp(found->each[i].organisation, organisation) == 0) return true;
    return false;
}

static struct result add_of(const struct finding *finding, const json_t *artifact, struct error *err)
{
    const char *repository = json_text_of(artifact, "repository");
    uint8_t digests[RUN_RESTRICTIONS_MAX][SHA256_SIZE];
    char organisation[NAME_ROOM];

    if (repository == NULL || strcspn(repository, "/") >= sizeof organisation)
        return SUCCESS; /* no organisation has such a name */
    (void)snprintf(organisation, sizeof organisation, "%.*s", (int)strcspn(repository, "/"), repository);
    if (finding->found->count == ORGANISATIONS_MAX || is_known(finding->found, organisation)) return SUCCESS;
    const size_t count = finding->day->restrictions(finding->day->context, organisation, digests);
    return count == 0 ? SUCCESS : join(finding, organisation, count, digests, err);
}

static struct result add_all(const struct finding *finding, struct error *err)
{
    const json_t *spec = run_member(finding->bundle->chain.order, "spec"), *outputs = json_object_get(spec, "outputs");
    const struct run_artifacts artifacts = run_spec_artifacts(spec);

    for (size_t i = 0; i < artifacts.count; i++) TRY(add_of(finding, artifacts.each[i].json, err));
    for (size_t i = 0; i < json_array_size(outputs); i++) TRY(add_of(finding, json_array_get(outputs, i), err));
    return SUCCESS;
}

/* What keyd has pinned is well-formed: if it can't be joined with this set, the run is denied, as the gateway denies it. */
struct result run_restrictions_of_day(const struct run_bundle *bundle, const struct run_day *day, const struct policy_set *set,
                                      struct run_restrictions **restrictions_out, struct error *err)
{
    OWNED(run_restrictions) *found = NULL;
    struct error why = {0};

    *restrictions_out = NULL;
    if (day->restrictions == NULL) return SUCCESS;
    found = memory_zeroed(1, sizeof *found);
    if (found == NULL) return policy_no_memory(err);
    const struct finding finding = {bundle, day, set, found};
    if (!add_all(&finding, &why).ok) {
        const bool stays = why.kind == ERROR_NO_MEMORY || why.kind == ERROR_UNAVAILABLE;
        return failure(err, stays ? why.kind : ERROR_DENIED, "%s", why.message);
    }
    if (found->count > 0) *restrictions_out = GIVE(found);
    return SUCCESS;
}
