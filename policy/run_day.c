#include "policy/run_day.h"

#include <string.h>

#include "base/json.h"
#include "base/text.h"

/* The most approvals that a set may ask for, if this run is to have enough. */
static int64_t approvals_that_do(const struct run_chain *chain)
{
    const int64_t has = (int64_t)chain->approval_count;

    return run_approvals_needed(chain->request, has) > has ? has - 1 : has;
}

/* Places of the order are not compared: the set may have come after it. What counts is where the run is. */
static struct result check_duties(const struct run_bundle *bundle, const struct train_run *run, struct error *err)
{
    const struct train_terms terms = {.approvals = approvals_that_do(&bundle->chain),
                                      .signed_request = run_member(bundle->chain.request, "claims") == NULL};

    return policy_train_check_terms(run, &terms, err);
}

static bool is_decided(const struct run_bundle *bundle, size_t index)
{
    char place[RUNNER_PLACE_SIZE], other[RUNNER_PLACE_SIZE];

    runner_key_place(&bundle->others[index], place);
    runner_key_place(&bundle->runner, other);
    for (size_t i = 0; i < index && strcmp(other, place) != 0; i++) runner_key_place(&bundle->others[i], other);
    return strcmp(other, place) == 0;
}

static struct result check_place(const struct train_run *run, const struct runner_key *runner, struct error *err)
{
    char place[RUNNER_PLACE_SIZE];

    runner_key_place(runner, place);
    return policy_train_check_region(run, place, err);
}

struct result policy_run_check_day(const struct run_bundle *bundle, const struct train_run *run, struct error *err)
{
    TRY(check_duties(bundle, run, err));
    if (!bundle->has_runner) return SUCCESS;
    TRY(check_place(run, &bundle->runner, err));
    for (size_t i = 0; i < bundle->chain.peer_count; i++)
        if (!is_decided(bundle, i)) TRY(check_place(run, &bundle->others[i], err));
    return SUCCESS;
}

static struct result find_set(const struct run_bundle *bundle, const struct run_day *day, struct policy_set **set_out,
                              struct error *err)
{
    const json_t *texts = json_object_get(bundle->json, "policy_sets");
    char digest[80] = "sha256:"; /* and 64 digits */
    OWNED(ecdsa_key) *root = NULL;

    text_hex(day->digest, 32, digest + strlen(digest));
    TRY(ecdsa_key_from_public(day->root, &root, err));
    for (size_t i = 0; i < json_array_size(texts); i++) {
        OWNED(policy_set) *set = NULL;
        TRY(policy_set_read_named(bytes_of_text(json_string_value(json_array_get(texts, i))), root, &set, err));
        if (strcmp(policy_set_digest(set), digest) != 0) continue;
        *set_out = GIVE(set);
        return SUCCESS;
    }
    return failure(err, ERROR_UNAVAILABLE, "the bundle does not have the policy set in force: ask again");
}

struct result policy_run_day(const struct run_bundle *bundle, const struct run_day *day, struct error *err)
{
    OWNED(policy_set) *set = NULL;
    OWNED(run_restrictions) *restrictions = NULL;
    struct error why = {0};

    TRY(find_set(bundle, day, &set, err));
    TRY(run_restrictions_of_day(bundle, day, set, &restrictions, err));
    const struct train_run run = {
        .set = set, .spec = run_member(bundle->chain.order, "spec"), .now_ms = day->now_ms, .restrictions = restrictions};
    if (policy_run_check_day(bundle, &run, &why).ok) return SUCCESS;
    return failure(err, why.kind, "%s: %.200s",
                   restrictions == NULL ? "the policy set in force" : "the policies in force, with restrictions of organisations",
                   why.message);
}
