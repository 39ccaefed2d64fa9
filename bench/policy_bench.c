/* What deciding costs: policies alone on the samples, and a whole decision of a request. usage: policy_bench EXAMPLES */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "policy/compiled_priv.h"
#include "policy/evaluate.h"

#define ROUNDS 200000

static int64_t now_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static json_t *example(const char *folder, const char *name)
{
    struct buffer OWNED_BUFFER text = BUFFER(1 << 20);
    struct buffer OWNED_BUFFER path = BUFFER(4096);
    json_t *json = NULL;
    struct error err = {0};

    if (!buffer_format(&path, &err, "%s/%s.json", folder, name).ok || !file_read(buffer_text(&path), &text, &err).ok ||
        !json_read(buffer_bytes(&text), 1 << 20, &json, &err).ok) {
        (void)fprintf(stderr, "%s\n", err.message);
        exit(1);
    }
    return json;
}

struct bench {
    struct policy_documents *documents;
    struct policy_groups *groups;
    struct policy_target *target;
    struct label label;
    struct policy_facts facts;
};

static struct result open_bench(struct bench *bench, const char *folder, struct error *err)
{
    static const char *const names[] = {"org-floor", "health-ae", "difc-bank-models", "public-models"};
    OWNED_JSON policies = json_array();
    OWNED_JSON regions = example(folder, "regions");
    struct label_query query = {.scope = "health/ct", .now_us = INT64_C(1797292800000000)};
    struct label own = label_initial();
    bool is_labelled = false;

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (json_array_append_new(policies, example(folder, names[i])) != 0) abort();
    TRY(policy_documents_new(policies, &bench->documents, err));
    TRY(policy_groups_new(json_object_get(regions, "groups"), &bench->groups, err));
    TRY(policy_target_new(json_object_get(json_object_get(regions, "regions"), "azure/uaenorth"), &bench->target, err));
    query.documents = bench->documents;
    TRY(policy_effective_label(&query, &own, &bench->label, &is_labelled, err));
    bench->facts = (struct policy_facts){.op = OP_INGEST,
                                         .scope = query.scope,
                                         .policy_epoch = 1,
                                         .label = &bench->label,
                                         .target_id = "azure/uaenorth",
                                         .target = bench->target,
                                         .now_us = query.now_us};
    return SUCCESS;
}

/* The walk over the documents without text and hash: a canonical text of one letter stands for them. */
static int64_t measure(const struct bench *bench, const struct policy_facts *facts, bool *allowed_out)
{
    const int64_t started_ns = now_ns();

    for (unsigned i = 0; i < ROUNDS; i++) {
        OWNED(policy_decision) *decision = NULL;
        struct error err = {0};
        if (!policy_evaluate(bench->documents, facts, bench->groups, &decision, &err).ok) exit(1);
        *allowed_out = policy_decision_allows(decision);
    }
    return (now_ns() - started_ns) / ROUNDS;
}

int main(int argc, char **argv)
{
    struct bench bench = {0};
    struct error err = {0};
    bool allowed = false;

    if (argc != 2 || !open_bench(&bench, argv[1], &err).ok) {
        (void)fprintf(stderr, "usage: policy_bench policy/examples  %s\n", err.message);
        return 2;
    }
    const int64_t whole_ns = measure(&bench, &bench.facts, &allowed);
    (void)printf("policy_evaluate, 4 policies, %s: %" PRId64 " ns\n", allowed ? "allowed" : "denied", whole_ns);
    struct policy_facts bare = bench.facts;
    bare.canonical = "0";
    (void)printf("  without the text of the facts: %" PRId64 " ns\n", measure(&bench, &bare, &allowed));
    bare.op = bench.facts.op = OP_READ;
    (void)printf("policy_evaluate, denied: %" PRId64 " ns\n", measure(&bench, &bench.facts, &allowed));
    const int64_t started_ns = now_ns();
    for (unsigned i = 0; i < ROUNDS; i++) {
        const struct label_query query = {bench.documents, bench.facts.scope, bench.facts.now_us};
        struct label label;
        bool is_labelled = false;
        if (!policy_effective_label(&query, NULL, &label, &is_labelled, &err).ok) exit(1);
    }
    (void)printf("policy_effective_label: %" PRId64 " ns\n", (now_ns() - started_ns) / ROUNDS);
    policy_documents_free(bench.documents);
    policy_groups_free(bench.groups);
    policy_target_free(bench.target);
    return 0;
}
