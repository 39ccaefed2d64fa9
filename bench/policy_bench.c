/*
 * What deciding costs in CPU time. usage: policy_bench policy/examples        the samples, and large sets made of them
 *                                         policy_bench ask SET FACTS SECONDS  nanoseconds a decision over a list of policies, and a digit for each of the facts
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "base/text.h"
#include "policy/compiled_priv.h"
#include "policy/evaluate.h"

#define ROUNDS         200000
#define LARGE_ROUNDS   2000
#define LIST_BYTES_MAX (4 << 20)
#define QUESTIONS_MAX  1000

static int64_t now_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
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

/* What a large set consists of; every tenth rule asks for one of so many places. */
struct set_shape {
    size_t policies, rules, places;
};

static int letter(size_t number, size_t unit)
{
    return 'A' + (int)(number / unit % 26);
}

/* The rules of the health sample again and again, each with an id of its own, every second one for a label that the content does not have. */
static void add_rules(json_t *policy, const struct set_shape *shape, size_t seed)
{
    static const char *const subjects[] = {"health", "government"};
    json_t *sample = json_object_get(policy, "rules"), *rules = json_array();

    for (size_t i = 0; i < shape->rules; i++) {
        const size_t place = (seed + i) / 10 % shape->places;
        json_t *rule = json_deep_copy(json_array_get(sample, i / 2 % json_array_size(sample)));
        char id[32];
        (void)snprintf(id, sizeof id, "R-%zu", i);
        (void)json_object_set_new(rule, "id", json_string(id));
        (void)json_object_del(rule, "basis");
        (void)json_object_del(rule, "message");
        if (strcmp(json_string_value(json_object_get(rule, "effect")), "permit") != 0)
            (void)json_object_set_new(rule, "when", json_pack("{s:[s]}", "subjects_any", subjects[i % 2]));
        json_t *places = json_object_get(json_object_get(rule, "target"), "geo_within");
        if (places != NULL && i % 10 < 2)
            (void)json_array_append_new(places,
                                        json_sprintf("AE/%c%c%c", letter(place, 676), letter(place, 26), letter(place, 1)));
        if (json_array_append_new(rules, rule) != 0) abort();
    }
    (void)json_object_set_new(policy, "rules", rules);
    (void)json_object_del(policy, "exception_types");
}

static json_t *large_set(const char *folder, const struct set_shape *shape)
{
    json_t *list = json_array();

    for (size_t i = 0; i < shape->policies; i++) {
        json_t *policy = example(folder, "health-ae"), *metadata = json_object_get(policy, "metadata");
        char id[32];
        (void)snprintf(id, sizeof id, "policy-%zu", i);
        (void)json_object_set_new(metadata, "id", json_string(id));
        (void)json_object_set_new(metadata, "scope", json_pack("[s]", i % 2 == 0 ? "health/**" : "*/ct"));
        add_rules(policy, shape, i * shape->rules);
        if (json_array_append_new(list, policy) != 0) abort();
    }
    return list;
}

static void expect(struct result result, const struct error *err)
{
    if (result.ok) return;
    (void)fprintf(stderr, "%s\n", err->message);
    exit(1);
}

/* A network of clients of which enough is known for a pull of what the samples label. */
static struct policy_target *known_client(void)
{
    OWNED_JSON json = json_pack("{s:s, s:i, s:s}", "geo", "AE/DU", "assurance", 3, "recipient", "same-controller");
    struct policy_target *client = NULL;
    struct error err = {0};

    expect(policy_target_new(json, &client, &err), &err);
    return client;
}

static void measure_judging(const struct policy_documents *documents, const struct policy_facts *facts,
                            const struct policy_groups *groups)
{
    OWNED(policy_decision) *decision = NULL;
    const int64_t started_ns = now_ns();
    struct error err = {0};

    for (unsigned round = 0; round < LARGE_ROUNDS; round++) {
        policy_decision_free(decision);
        expect(policy_judge(documents, facts, groups, &decision, &err), &err);
    }
    (void)printf("  policy_judge, %s: %" PRId64 " ns, %zu denials\n", policy_operation_name(facts->op),
                 (now_ns() - started_ns) / LARGE_ROUNDS, policy_decision_denial_count(decision));
}

static void measure_large(const struct bench *bench, const char *folder, const struct set_shape *shape)
{
    OWNED_JSON set = large_set(folder, shape);
    OWNED(policy_documents) *documents = NULL;
    OWNED(policy_target) *target = NULL; /* each set has its own */
    struct policy_facts facts = bench->facts;
    struct label label;
    struct error err = {0};
    bool is_labelled = false;
    const int64_t began_ns = now_ns();

    expect(policy_documents_new(set, &documents, &err), &err);
    const int64_t compiled_ns = now_ns();
    OWNED_JSON json = json_loads(policy_target_canonical(bench->target), 0, NULL);
    expect(policy_target_new(json, &target, &err), &err);
    facts.target = target;
    const struct label_query query = {documents, facts.scope, facts.now_us};
    expect(policy_effective_label(&query, NULL, &label, &is_labelled, &err), &err);
    facts.label = &label;
    (void)printf("%zu policies of %zu rules, all in scope, %zu places, compiled in %" PRId64 " us\n", shape->policies,
                 shape->rules, shape->places, (compiled_ns - began_ns) / 1000);
    OWNED(policy_target) *client = known_client();
    facts.op = OP_INGEST;
    measure_judging(documents, &facts, bench->groups);
    facts.op = OP_READ;
    measure_judging(documents, &facts, bench->groups); /* by a client of which nothing is known: refused */
    facts.target = client;
    measure_judging(documents, &facts, bench->groups);
}

/* --- decisions about facts from a file --- */

static json_t *read_list(const char *path)
{
    struct buffer OWNED_BUFFER text = BUFFER(LIST_BYTES_MAX);
    json_t *json = NULL;
    struct error err = {0};

    expect(file_read(path, &text, &err), &err);
    expect(json_read(buffer_bytes(&text), LIST_BYTES_MAX, &json, &err), &err);
    return json;
}

static bool decide(const struct policy_documents *documents, const struct policy_facts *facts, const struct policy_groups *groups)
{
    OWNED(policy_decision) *decision = NULL;
    struct error err = {0};

    expect(policy_judge(documents, facts, groups, &decision, &err), &err);
    return policy_decision_allows(decision);
}

/* A first round gives the answers. */
static void ask_all(const struct policy_documents *documents, const struct policy_groups *groups,
                    struct policy_facts_document **facts, size_t count, int64_t limit_ns)
{
    char answers[QUESTIONS_MAX + 1] = "";
    int64_t decided = 0;

    for (size_t i = 0; i < count; i++) answers[i] = decide(documents, policy_facts_of(facts[i]), groups) ? '1' : '0';
    const int64_t began_ns = now_ns();
    while (now_ns() - began_ns < limit_ns)
        for (size_t i = 0; i < count; i++, decided++) (void)decide(documents, policy_facts_of(facts[i]), groups);
    (void)printf("%" PRId64 " %s\n", (now_ns() - began_ns) / decided, answers);
}

static void ask(const char *set, const char *questions, const char *seconds)
{
    OWNED_JSON policies = read_list(set);
    OWNED_JSON list = read_list(questions);
    OWNED_JSON no_groups = json_object();
    OWNED(policy_documents) *documents = NULL;
    OWNED(policy_groups) *groups = NULL;
    struct policy_facts_document *facts[QUESTIONS_MAX] = {NULL};
    const size_t count = json_array_size(list);
    struct error err = {0};
    uint64_t limit = 0;

    if (count == 0 || count > QUESTIONS_MAX || !text_to_u64(bytes_of_text(seconds), 3600, &limit)) exit(2);
    expect(policy_documents_new(policies, &documents, &err), &err);
    expect(policy_groups_new(no_groups, &groups, &err), &err);
    for (size_t i = 0; i < count; i++) expect(policy_facts_read(json_array_get(list, i), &facts[i], &err), &err);
    ask_all(documents, groups, facts, count, (int64_t)limit * 1000000000);
    for (size_t i = 0; i < count; i++) policy_facts_document_free(facts[i]);
}

int main(int argc, char **argv)
{
    struct bench bench = {0};
    struct error err = {0};
    bool allowed = false;

    if (argc == 5 && strcmp(argv[1], "ask") == 0) {
        ask(argv[2], argv[3], argv[4]);
        return 0;
    }
    if (argc != 2 || !open_bench(&bench, argv[1], &err).ok) {
        (void)fprintf(stderr, "usage: policy_bench policy/examples | ask SET FACTS SECONDS  %s\n", err.message);
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
    static const struct set_shape shapes[] = {{20, 50, 20}, {20, 50, 1000}, {40, 250, 50}, {40, 250, 1000}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) measure_large(&bench, argv[1], &shapes[i]);
    policy_documents_free(bench.documents);
    policy_groups_free(bench.groups);
    policy_target_free(bench.target);
    return 0;
}
