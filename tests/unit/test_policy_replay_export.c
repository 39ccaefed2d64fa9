/* The decisions of the vectors, made again as by sijil-verify. */
#include "tests/support/audit_vectors.h"

#include "crypto/digest.h"
#include "documents/format/document.h"
#include "policy/replay_export.h"
#include "policy/restriction.h"

#define LINE_MAX_HERE 65536 /* a leaf and its facts, of the vectors */

static struct policy_set *sets[16]; /* the vectors have fewer */
static struct replay_sets all_sets = {.sets = sets};

static const json_t *events(void)
{
    return vector(vector(vectors, "decisions"), "events");
}

static void read_sets(void)
{
    const json_t *documents = vector(vector(vectors, "decisions"), "sets");
    const char *digest;
    json_t *document;

    json_object_foreach ((json_t *)(uintptr_t)documents, digest, document) {
        struct buffer OWNED_BUFFER text = BUFFER(POLICY_SET_BYTES_MAX);
        struct error err = {0};
        if (!json_write_canonical(&text, document, &err).ok ||
            !policy_set_compile(buffer_bytes(&text), &sets[all_sets.count++], &err).ok)
            fail_msg("%s", err.message);
    }
}

static void write_line(const json_t *event, char line[LINE_MAX_HERE])
{
    const json_t *facts = vector(event, "facts");
    size_t length =
        (size_t)snprintf(line, LINE_MAX_HERE, "{\"seq\":1,\"entry\":%s,\"facts\":[", json_string_value(vector(event, "entry")));

    for (size_t i = 0; i < json_array_size(facts); i++)
        length += (size_t)snprintf(line + length, LINE_MAX_HERE - length, "%s%s", i > 0 ? "," : "",
                                   json_string_value(json_array_get(facts, i)));
    assert_true((size_t)snprintf(line + length, LINE_MAX_HERE - length, "]}") + length < LINE_MAX_HERE);
}

static void count(const char *line, const struct replay_sets *with, struct replay_tally *tally)
{
    struct error err = {0};

    if (!replay_export_line(bytes_of_text(line), with, tally, &err).ok) fail_msg("%s: %s", err.message, line);
}

static void the_vectors_agree(void **state)
{
    struct replay_tally tally = {0};
    struct buffer OWNED_BUFFER text = BUFFER(4096);
    char line[LINE_MAX_HERE];
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < json_array_size(events()); i++) {
        write_line(json_array_get(events(), i), line);
        count(line, &all_sets, &tally);
    }
    assert_true(replay_is_sound(&tally));
    assert_true(replay_tally_text(&tally, &text, &err).ok);
    assert_string_equal(buffer_text(&text),
                        "8 decisions agree, 0 differ, 1 events are not replayable (1 of version 1, 0 whose facts were left "
                        "out, 0 whose facts are gone, 0 whose policy set is not at hand)\n");
    buffer_clear(&text);
    assert_true(replay_tally_json(&tally, &text, &err).ok);
    assert_string_equal(
        buffer_text(&text),
        "{\"agree\":8,\"differ\":0,\"not_replayable\":{\"all\":1,\"lacking_facts\":0,\"lacking_set\":0,\"omitted\":0,\"version_1\":1},"
        "\"verified\":true}\n");
}

/* Each changed byte of each entry's facts is noticed; the first number stays. */
static void changed_facts_are_told(void **state)
{
    static const char wanted[] = "\"judged\":";
    struct replay_tally tally = {0};
    struct buffer OWNED_BUFFER text = BUFFER(4096);
    char line[LINE_MAX_HERE];
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        write_line(json_array_get(events(), i), line);
        memcpy(strstr(line, wanted), "\"jugged\":", sizeof wanted - 1);
        count(line, &all_sets, &tally);
    }
    assert_int_equal(tally.differ, 2);
    assert_int_equal(tally.first, 0);
    assert_false(replay_is_sound(&tally));
    assert_true(replay_tally_text(&tally, &text, &err).ok);
    assert_non_null(strstr(buffer_text(&text), "first to differ: event 0: the facts of its target 1 are not those that"));
    assert_true(replay_tally_json(&tally, &text, &err).ok);
    assert_non_null(strstr(buffer_text(&text), "\"first\":{\"seq\":0,\"what\":\"the facts"));
}

static void a_missing_set_is_told(void **state)
{
    const struct replay_sets none = {.count = 0};
    struct replay_tally tally = {0};
    struct buffer OWNED_BUFFER text = BUFFER(4096);
    char line[LINE_MAX_HERE];
    struct error err = {0};

    (void)state;
    write_line(json_array_get(events(), 0), line);
    count(line, &none, &tally);
    assert_int_equal(tally.lacking_set, 1);
    assert_false(replay_is_sound(&tally));
    assert_true(replay_tally_text(&tally, &text, &err).ok);
    assert_non_null(strstr(buffer_text(&text), "first missing policy set: sha256:"));
    assert_true(replay_tally_json(&tally, &text, &err).ok);
    assert_non_null(strstr(buffer_text(&text), "\"missing_set\":\"sha256:"));
}

/* A set was loaded; then a gateway decides under the previous one. */
static void an_older_set_is_told(void **state)
{
    struct replay_tally tally = {.loaded_epoch = 5, .loaded_at = 0};
    char line[LINE_MAX_HERE];

    (void)state;
    write_line(json_array_get(events(), 1), line); /* under epoch 5 */
    count(line, &all_sets, &tally);
    assert_int_equal(tally.agree, 1);
    tally.loaded_epoch = 6;
    tally.loaded_at = 1;
    count(line, &all_sets, &tally); /* event 1 was decided before that load */
    assert_int_equal(tally.agree, 2);
    tally.loaded_at = 0;
    count(line, &all_sets, &tally);
    assert_int_equal(tally.differ, 1);
    assert_non_null(strstr(tally.what, "older policy set than the one that event 0 loaded"));
}

#define LOADED                                                                                                                              \
    "{\"entry\":{\"act\":\"policy.load\",\"actor\":\"system\",\"cls\":600303,\"k\":{\"act:system\":1},\"out\":\"%s\",\"req\":\"\",\"res\":" \
    "\"#sha256:aa %s sha256:bb\",\"rgn\":\"\",\"seq\":9,\"src\":[\"gw1\",1,1],\"ts\":1,\"v\":2,\"why\":{}},\"facts\":[]}"

static const struct load_row {
    const char *name, *outcome, *epoch;
    uint64_t loaded;
} load_rows[] = {{"a load", "allowed", "7", 7}, {"one that failed", "completed", "7", 0}, {"no number", "allowed", "07", 0}};

static void a_load_is_noted(void **state)
{
    const struct load_row *row = *state;
    struct replay_tally tally = {0};
    char line[1024];

    (void)snprintf(line, sizeof line, LOADED, row->outcome, row->epoch);
    count(line, &all_sets, &tally);
    assert_int_equal(tally.loaded_epoch, row->loaded);
    assert_int_equal(tally.loaded_at, row->loaded == 0 ? 0 : 9);
}

/* Such an export was "verified" once, like an export of events that the server made by itself. */
static void facts_that_are_gone_are_told(void **state)
{
    struct replay_tally tally = {0};
    struct buffer OWNED_BUFFER text = BUFFER(4096);
    char line[LINE_MAX_HERE];
    struct error err = {0};

    (void)state;
    write_line(json_array_get(events(), 0), line);
    char *facts = strstr(line, ",\"facts\":[{"); /* those beside the entry; the entry has its own before "k" */
    assert_non_null(facts);
    (void)snprintf(facts, (size_t)(line + sizeof line - facts), ",\"facts\":[null]}");
    count(line, &all_sets, &tally);
    assert_int_equal(tally.impossible, 1);
    assert_int_equal(tally.missing, 1);
    assert_int_equal(tally.old + tally.lacking_set + tally.omitted, 0);
    assert_false(replay_is_sound(&tally));
    assert_true(replay_tally_text(&tally, &text, &err).ok);
    assert_non_null(strstr(buffer_text(&text), "first whose facts are gone: event 0\n"));
    buffer_clear(&text);
    assert_true(replay_tally_json(&tally, &text, &err).ok);
    assert_non_null(strstr(buffer_text(&text), "\"first_missing\":0,\"not_replayable\":{\"all\":1,\"lacking_facts\":1,"));
    assert_non_null(strstr(buffer_text(&text), "\"verified\":false"));
}

static const struct bad_row {
    const char *name, *line;
} bad_rows[] = {
    {"nothing", ""},
    {"no JSON", "{"},
    {"no entry", "{\"facts\":[]}"},
    {"a list", "[]"},
    {"an entry that is none", "{\"entry\":{\"v\":2},\"facts\":[]}"},
    {"a fraction", "{\"entry\":{\"v\":2.5},\"facts\":[]}"},
};

static void what_is_no_event_is_refused(void **state)
{
    const struct bad_row *row = *state;
    struct replay_tally tally = {0};
    struct error err = {0};

    assert_false(replay_export_line(bytes_of_text(row->line), &all_sets, &tally, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
    assert_int_equal(tally.agree + tally.differ + tally.impossible, 0);
}

static void facts_that_are_no_list_are_refused(void **state)
{
    char line[LINE_MAX_HERE];
    struct replay_tally tally = {0};
    struct error err = {0};

    (void)state;
    (void)snprintf(line, sizeof line, "{\"entry\":%s,\"facts\":{}}",
                   json_string_value(vector(json_array_get(events(), 0), "entry")));
    assert_false(replay_export_line(bytes_of_text(line), &all_sets, &tally, &err).ok);
    (void)snprintf(line, sizeof line, "{\"entry\":%s,\"facts\":[1,2,3,4,5]}",
                   json_string_value(vector(json_array_get(events(), 0), "entry")));
    assert_false(replay_export_line(bytes_of_text(line), &all_sets, &tally, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
}

/* ---- restrictions of organisations ---- */

#define RESTRICTION(geo)                                                                                                  \
    "{\"apiVersion\":\"sijil.policy/v1\",\"closed\":false,\"kind\":\"ResidencyPolicy\",\"metadata\":{\"effective_from\":" \
    "\"2026-01-01T00:00:00Z\",\"id\":\"acme.closed\",\"organisation\":\"acme\",\"review_by\":\"2030-01-01\",\"scope\":"   \
    "[\"acme/**\"],\"version\":1},\"rules\":[{\"effect\":\"require\",\"id\":\"A-PLACE\",\"ops\":[\"ingest\"],\"target\":" \
    "{\"geo_within\":[\"" geo "\"]}}]}"

/* A version of the one restriction: its document, and its policy as facts name it. */
struct version {
    const char *policy;
    struct document *document;
    json_t *digests;
};

static void make_version(struct version *version, uint64_t number)
{
    struct buffer OWNED_BUFFER payload = BUFFER(8192);
    OWNED_JSON policy = json_loads(version->policy, 0, NULL);
    OWNED_JSON policies = json_pack("[O]", policy);
    OWNED_JSON body = json_pack("{s:O}", "policy", policy);
    OWNED_STRING digests = NULL;
    const struct document_parts parts = {
        .kind = DOCUMENT_RESTRICTION, .scope = "acme", .name = "acme.closed", .version = number, .effective_ms = 1, .body = body};
    struct error err = {0};

    must(document_compose(&parts, &payload, &err), &err);
    must(document_read_payload(DOCUMENT_RESTRICTION, buffer_bytes(&payload), &version->document, &err), &err);
    must(policy_restrictions_digests(policies, &digests, &err), &err);
    version->digests = json_loads(digests, 0, NULL);
}

static void note(struct replay_restrictions *restrictions, uint64_t sequence, const struct document *document)
{
    static struct leaf leaf;
    struct digest digest = {.algorithm = DIGEST_SHA256};
    char text[DIGEST_TEXT_SIZE];

    memcpy(digest.bytes, document->digest, sizeof document->digest);
    digest_format(&digest, text);
    leaf = (struct leaf){.sequence = sequence, .outcome = "allowed", .target_count = 1};
    (void)snprintf(leaf.targets[0].action, sizeof leaf.targets[0].action, "restriction.approve");
    (void)snprintf(leaf.targets[0].resource, sizeof leaf.targets[0].resource, "acme#sha256:aa 1 %s", text);
    replay_restrictions_note(restrictions, &leaf);
}

/* Whether a decision in acme may name these now; NULL: none. */
static enum error_kind judge_at(struct replay_restrictions *restrictions, const json_t *digests, uint64_t sequence)
{
    const struct replay_restrictions_query query = {sets[0], "acme/a/b", digests, sequence, true};
    const struct policy_documents *documents = NULL;
    struct error err = {0};

    return replay_restrictions_join(restrictions, &query, &documents, &err).ok ? ERROR_NONE : err.kind;
}

static enum error_kind judge(struct replay_restrictions *restrictions, const json_t *digests)
{
    return judge_at(restrictions, digests, 4);
}

static void a_version_counts_from_its_event_to_the_next(void **state)
{
    struct version versions[] = {{.policy = RESTRICTION("AE")}, {.policy = RESTRICTION("SA")}, {.policy = RESTRICTION("AE")}};
    OWNED(replay_restrictions) *all = NULL;
    OWNED(replay_restrictions) *first = NULL;
    struct error err = {0};

    (void)state;
    must(replay_restrictions_new(&all, &err), &err);
    must(replay_restrictions_new(&first, &err), &err);
    for (size_t i = 0; i < 3; i++) {
        make_version(&versions[i], i + 1);
        must(replay_restrictions_add(all, versions[i].document, &err), &err);
    }
    must(replay_restrictions_add(first, versions[0].document, &err), &err);
    assert_int_equal(judge(all, NULL), ERROR_NONE);
    note(all, 2, versions[1].document); /* an export that begins after the event of the first */
    assert_int_equal(judge(all, versions[0].digests), ERROR_DENIED);
    assert_int_equal(judge(all, versions[1].digests), ERROR_NONE);
    note(all, 3, versions[2].document); /* says again what the first has said */
    assert_int_equal(judge(all, versions[0].digests), ERROR_NONE);
    assert_int_equal(judge(all, versions[1].digests), ERROR_DENIED);
    note(first, 1, versions[0].document);
    assert_int_equal(judge(first, NULL), ERROR_DENIED);
    note(first, 2, versions[1].document); /* its end may be this one, which is not at hand */
    assert_int_equal(judge(first, NULL), ERROR_NOT_FOUND);
    assert_int_equal(judge(first, versions[0].digests), ERROR_NONE);
    for (size_t i = 0; i < 3; i++) {
        document_free(versions[i].document);
        json_decref(versions[i].digests);
    }
}

/* A proof has the numbers of its events, so the export need not have these. */
static void what_is_proven_counts_without_its_event(void **state)
{
    static const struct {
        uint64_t sequence;
        enum error_kind none, first, second; /* a decision that names these */
    } moments[] = {{5, ERROR_NONE, ERROR_NONE, ERROR_NONE},
                   {6, ERROR_DENIED, ERROR_NONE, ERROR_DENIED},
                   {8, ERROR_DENIED, ERROR_NONE, ERROR_DENIED},
                   {10, ERROR_DENIED, ERROR_DENIED, ERROR_NONE}};
    struct version versions[] = {{.policy = RESTRICTION("AE")}, {.policy = RESTRICTION("SA")}};
    OWNED(replay_restrictions) *all = NULL;
    struct error err = {0};

    (void)state;
    must(replay_restrictions_new(&all, &err), &err);
    assert_int_equal(replay_restrictions_first(all), 0);
    for (size_t i = 0; i < 2; i++) {
        make_version(&versions[i], i + 1);
        const struct restriction_proven proven = {
            .document = versions[i].document, .sequence = i == 0 ? 5 : 9, .until = i == 0 ? 9 : 0};
        must(replay_restrictions_add_proven(all, &proven, &err), &err);
        must(replay_restrictions_add(all, versions[i].document, &err), &err); /* the same again changes nothing */
    }
    assert_int_equal(replay_restrictions_first(all), 5);
    for (size_t i = 0; i < COUNT(moments); i++) {
        assert_int_equal(judge_at(all, NULL, moments[i].sequence), moments[i].none);
        assert_int_equal(judge_at(all, versions[0].digests, moments[i].sequence), moments[i].first);
        assert_int_equal(judge_at(all, versions[1].digests, moments[i].sequence), moments[i].second);
    }
    for (size_t i = 0; i < 2; i++) {
        document_free(versions[i].document);
        json_decref(versions[i].digests);
    }
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(the_vectors_agree),
        cmocka_unit_test(changed_facts_are_told),
        cmocka_unit_test(a_missing_set_is_told),
        cmocka_unit_test(an_older_set_is_told),
        cmocka_unit_test(facts_that_are_gone_are_told),
        cmocka_unit_test(facts_that_are_no_list_are_refused),
        cmocka_unit_test(a_version_counts_from_its_event_to_the_next),
        cmocka_unit_test(what_is_proven_counts_without_its_event),
    };

    read_vectors();
    read_sets();
    const int failed = cmocka_run_group_tests_name("export", others, NULL, NULL) +
                       RUN_TABLE(bad_rows, what_is_no_event_is_refused) + RUN_TABLE(load_rows, a_load_is_noted);
    for (size_t i = 0; i < all_sets.count; i++) policy_set_free(sets[i]);
    json_decref(vectors);
    return failed;
}
