/* Random decisions; each is made again only from its event and its facts. */
#include "tests/unit/drawn_fixture.h"

#include <arpa/inet.h>
#include <assert.h>

#include "audit/event_priv.h"
#include "policy/replay.h"
#include "policy/set_priv.h"

#define DECISIONS 10000

/* --- one decision --- */

/* The decision as recorded: its leaf is written and read. */
static struct leaf recorded(struct decision *decision)
{
    struct record record = {.decision = decision};
    struct buffer OWNED_BUFFER text = BUFFER(2 * LEAF_MAX);
    struct event event;
    struct leaf leaf = {.sequence = 1}, read;
    struct error err = {0};

    if (!event_of_record(&record, &event, &err).ok) fail_msg("%s", err.message);
    event_fill_leaf(&event, &leaf);
    for (size_t i = 0; i < leaf.key_count; i++) leaf.keys[i].ordinal = 1;
    if (!leaf_write(&leaf, &text, &err).ok || !leaf_read(buffer_bytes(&text), &read, &err).ok) fail_msg("%s", err.message);
    event_done(&event);
    return read;
}

static struct replay_report replayed(const struct leaf *leaf, const struct bytes *facts, const struct policy_set *set)
{
    struct replay_report report;
    struct error err = {0};

    if (!policy_replay(leaf, facts, leaf->facts_count, &(struct replay_base){.set = set}, &report, &err).ok)
        fail_msg("%s", err.message);
    return report;
}

struct tally_of {
    size_t allowed, denied, with_policies, with_digest, lifted, labels, locked, used, spent, told;
};

static void count(struct tally_of *tally, const struct decision *decision)
{
    const struct bytes facts = decision->parts.facts[0];

    *(decision_verdict(decision) == VERDICT_ALLOW ? &tally->allowed : &tally->denied) += 1;
    tally->with_policies += memmem(facts.data, facts.length, "\"op\"", 4) != NULL;
    if (memmem(facts.data, facts.length, "\"before\":", 9) != NULL)
        *(decision_verdict(decision) == VERDICT_ALLOW ? &tally->labels : &tally->locked) += 1;
    tally->used += memmem(facts.data, facts.length, "\"used\":[", 8) != NULL && decision->parts.use_count == 1;
    tally->spent += memmem(facts.data, facts.length, "\"spent\":[", 9) != NULL && decision->parts.use_count == 0;
    tally->told += memmem(facts.data, facts.length, "\"told\":[", 8) != NULL;
    tally->with_digest += memmem(facts.data, facts.length, "\"digest\":true", 13) != NULL;
}

/* An exception names its digests, so an event with another digest belongs to another decision. */
static bool depends_on_digest(const struct leaf *leaf, const struct decision *decision)
{
    struct leaf other = *leaf;
    char *digest = strstr(other.targets[0].resource, "#" DIGEST);

    if (digest == NULL) return false;
    digest[strlen("#sha256:")] = 'f';
    return replayed(&other, decision->parts.facts, snapshot.set).verdict == REPLAY_DIFFERS;
}

static struct decision *decide_at_random(struct drawn *drawn)
{
    struct decision *decision = NULL;
    struct error err = {0};

    draw_request(drawn);
    if (!decide_request(&drawn->context, &decision, &err).ok) fail_msg("%s", err.message);
    return decision;
}

/* Of some sets the uses of an exception are used up. */
static void use_set(uint64_t epoch)
{
    static uint8_t spent[1][SHA256_SIZE];
    struct policy_set *set = draw_set(epoch);
    const struct policy_exception *exception = set->exception_count > 0 ? set->exceptions[0] : NULL;

    snapshot.tenancy.spent = spent;
    snapshot.tenancy.spent_count = exception != NULL && exception->uses < INT64_MAX && draw(2) == 0;
    if (snapshot.tenancy.spent_count > 0) memcpy(spent[0], exception->key, sizeof spent[0]);

    policy_set_free(snapshot.set);
    snapshot.set = set;
}

/* A gateway that tells nobody. Older facts did not name them, so the facts alone don't show it: the log does, once it has a restriction. */
static void check_silence(const struct leaf *leaf, const struct decision *decision)
{
    const struct bytes facts = decision->parts.facts[0];
    const char *begin = memmem(facts.data, facts.length, ",\"told\":[", 9);
    struct buffer OWNED_BUFFER silent = BUFFER(65536);
    struct leaf changed = *leaf;
    struct replay_report report;
    struct error err = {0};

    if (begin == NULL) return;
    const char *end = (const char *)memchr(begin, ']', facts.length - (size_t)(begin - (const char *)facts.data)) + 1;
    must(buffer_format(&silent, &err, "%.*s%.*s", (int)(begin - (const char *)facts.data), (const char *)facts.data,
                       (int)((const char *)facts.data + facts.length - end), end),
         &err);
    if (memmem(silent.data, silent.length, ",\"told\":[", 9) != NULL) return; /* a pair of two names */
    const struct bytes views[LEAF_TARGETS_MAX] = {buffer_bytes(&silent)};
    sha256_of(views[0], changed.facts[0]);
    if (changed.facts_count != 1) return;
    changed.sequence = 5;
    for (uint64_t from = 0; from <= 5; from++) {
        const struct replay_base base = {.set = snapshot.set, .told_from = from};
        must(policy_replay(&changed, views, 1, &base, &report, &err), &err);
        assert_int_equal(report.verdict, from == 0 || from == 5 ? REPLAY_AGREES : REPLAY_DIFFERS);
        if (report.verdict == REPLAY_DIFFERS && strstr(report.what, "whom the facts leave out") == NULL)
            fail_msg("%s", report.what);
    }
}

static void random_decisions_are_made_again_the_same(void **state)
{
    struct tally_of tally = {0};
    struct drawn drawn;

    (void)state;
    for (uint64_t i = 0; i < DECISIONS; i++) {
        if (i % 20 == 0) use_set(i + 1);
        OWNED(decision) *decision = decide_at_random(&drawn);
        const struct leaf leaf = recorded(decision);
        const struct replay_report report = replayed(&leaf, decision->parts.facts, snapshot.set);
        if (report.verdict != REPLAY_AGREES)
            fail_msg("decision %llu: %s\n%.*s", (unsigned long long)i, report.what, (int)decision->parts.facts[0].length,
                     (const char *)decision->parts.facts[0].data);
        count(&tally, decision);
        check_silence(&leaf, decision);
        tally.lifted += decision_verdict(decision) == VERDICT_ALLOW && depends_on_digest(&leaf, decision);
    }
    print_message(
        "allowed %zu, denied %zu, asked of policies %zu, with a digest %zu, lifted for one %zu, labels %zu and %zu refused\n",
        tally.allowed, tally.denied, tally.with_policies, tally.with_digest, tally.lifted, tally.labels, tally.locked);
    assert_true(tally.allowed > DECISIONS / 20 && tally.denied > DECISIONS / 20 && tally.with_policies > DECISIONS / 5 &&
                tally.with_digest > DECISIONS / 10 && tally.lifted > 0 && tally.labels > 0 && tally.locked > 0 &&
                tally.used >= tally.lifted && tally.spent > 0 && tally.told > DECISIONS / 20);
    snapshot.tenancy.spent = NULL;
    snapshot.tenancy.spent_count = 0;
}

/* --- what is not as it was --- */

static struct decision *decide_to_read(const char *client, enum verdict expected)
{
    static struct drawn drawn;
    struct decision *decision = NULL;
    struct error err = {0};

    policy_set_free(snapshot.set);
    snapshot.set = make_set();
    drawn.principal = (struct principal){.kind = PRINCIPAL_ROBOT, .id = id_of('p')};
    drawn.client = (struct sockaddr_in){.sin_family = AF_INET};
    assert_int_equal(inet_pton(AF_INET, client, &drawn.client.sin_addr), 1);
    drawn.request = (struct decision_request){.principal = &drawn.principal,
                                              .pair_count = 1,
                                              .now_ms = NOW_MS,
                                              .client = {.address = (const struct sockaddr *)&drawn.client}};
    drawn.request.pairs[0].action = ACTION_BLOB_READ;
    tenancy_resolve(&snapshot.tenancy, "acme/health/scans", &drawn.request.pairs[0].resource);
    drawn.context = (struct decision_context){.snapshot = &snapshot, .request = &drawn.request, .metadata_region = ""};
    if (!decide_request(&drawn.context, &decision, &err).ok) fail_msg("%s", err.message);
    assert_int_equal(decision_verdict(decision), expected);
    return decision;
}

static void each_changed_byte_of_facts_is_refused(void **state)
{
    OWNED(decision) *decision = decide_to_read("10.1.2.3", VERDICT_ALLOW);
    const struct leaf leaf = recorded(decision);
    const struct bytes facts = decision->parts.facts[0];
    uint8_t changed[4096];

    (void)state;
    assert_true(facts.length < sizeof changed);
    assert_int_equal(replayed(&leaf, &facts, snapshot.set).verdict, REPLAY_AGREES);
    for (size_t i = 0; i < facts.length; i++) {
        memcpy(changed, facts.data, facts.length);
        changed[i] ^= (uint8_t)(1 + draw(255));
        const struct bytes other = {changed, facts.length};
        assert_int_equal(replayed(&leaf, &other, snapshot.set).verdict, REPLAY_DIFFERS);
    }
    const struct bytes shorter = {facts.data, facts.length - 1};
    assert_int_equal(replayed(&leaf, &shorter, snapshot.set).verdict, REPLAY_DIFFERS);
}

/* Facts and event of a lying gateway, which commits to any facts. */
static const struct lie_row {
    const char *name, *from, *to; /* of the facts of a denied read of health data from a network that is not listed */
    const char *outcome;          /* that the event says; its rules then follow */
    enum replay_verdict verdict;
    const char *what;
} lie_rows[] = {
    {"nothing changed", "", "", "denied", REPLAY_AGREES, ""},
    {"an outcome that the facts do not lead to", "", "", "allowed", REPLAY_DIFFERS, "the event says that it was allowed"},
    {"a network that is listed otherwise", "{},\"target_id\":\"client\"",
     "{\"assurance\":4,\"geo\":\"AE\"},\"target_id\":\"10.1.0.0/16\"", "allowed", REPLAY_DIFFERS,
     "the policy set says something else"},
    {"a network that is not listed", "{},\"target_id\":\"client\"",
     "{\"assurance\":4,\"geo\":\"AE\"},\"target_id\":\"10.9.0.0/16\"", "allowed", REPLAY_DIFFERS,
     "the policy set says something else"},
    {"a label without the floor of a policy", "\"class\":\"confidential\"", "\"class\":\"open\"", "denied", REPLAY_DIFFERS,
     "a stricter label"},
    {"no label at all", "\"label\":{*},\"op", "\"label\":null,\"op", "denied", REPLAY_DIFFERS, "a stricter label"},
    {"an operation left out", "\"operations\":[{*}],\"pro", "\"operations\":[],\"pro", "allowed", REPLAY_DIFFERS,
     "not asked for all"},
    {"nothing judged", "\"judged\":[{*}],\"ref", "\"judged\":[],\"ref", "allowed", REPLAY_DIFFERS, "not asked for all"},
    {"another action", "\"action\":\"blob.read\"", "\"action\":\"blob.stat\"", "denied", REPLAY_DIFFERS, "another action"},
    {"refused by rights", "\"refused\":[]", "\"refused\":[\"SYS-NO-BINDING\"]", "denied", REPLAY_DIFFERS, "other rules"},
    {"more than is kept", "\"judged\":[{*}],\"ref", "\"judged\":[],\"omitted\":true,\"ref", "denied", REPLAY_IMPOSSIBLE,
     "too large to keep"},
    {"no JSON", "{\"action\"", "[\"action\"", "denied", REPLAY_DIFFERS, "not facts"},
    {"a member that is not known", "\"v\":1", "\"v\":1,\"w\":1", "denied", REPLAY_DIFFERS, "not facts"},
    {"another version", "\"v\":1", "\"v\":2", "denied", REPLAY_DIFFERS, "not facts"},
    {"an operation that there is not", "\"op\":\"read\"", "\"op\":\"reap\"", "denied", REPLAY_DIFFERS, "not facts"},
    {"a label from before, where none was set", "\"judged\":[{", "\"judged\":[{\"before\":null,", "allowed", REPLAY_DIFFERS,
     "no label was compared"},
    {"another name", "\"}],\"ref", "\",\"scope\":\"acme/models/top\"}],\"ref", "allowed", REPLAY_DIFFERS, "another name"},
    {"an operation twice", "\"operations\":[{*}],\"pro",
     "\"operations\":[{\"op\":\"read\",\"target\":{},\"target_id\":\"client\"},"
     "{\"op\":\"read\",\"target\":{},\"target_id\":\"client\"}],\"pro",
     "denied", REPLAY_DIFFERS, "other operations"},
    {"a refusal that there is not", "\"refused\":[]", "\"refused\":[\"SYS-MADE-UP\"]", "denied", REPLAY_DIFFERS,
     "no decision is refused by these rules"},
    {"no policy set, although the event names one", "\"refused\":[]", "\"refused\":[\"SYS-NO-POLICY\"]", "denied", REPLAY_DIFFERS,
     "the event names one"},
    {"a digest that the event lacks", "\"digest\":false", "\"digest\":true", "denied", REPLAY_DIFFERS, "the event has none"},
    {"more than is kept, and kept", "\"refused\"", "\"omitted\":true,\"refused\"", "denied", REPLAY_DIFFERS,
     "marked as left out"},
    {"an exception that the set does not have is used up", "\"}],\"ref", "\",\"spent\":[\"" DIGEST "\"]}],\"ref", "denied",
     REPLAY_DIFFERS, "an exception was used up"},
    {"an exception that lifted nothing", "\"}],\"ref",
     "\",\"used\":[{\"evidence\":{},\"exception\":\"" DIGEST "\",\"id\":\"x-0\"}]}],\"ref", "denied", REPLAY_DIFFERS,
     "other exceptions"},
    {"somebody is told whom no duty names", "\"}],\"ref", "\",\"told\":[\"dpo\"]}],\"ref", "denied", REPLAY_DIFFERS,
     "no duty wants told"},
    {"a project that is none", "\"project\":\"", "\"project\":\"x", "denied", REPLAY_DIFFERS, "not facts"},
};

/* `from` may have one '*', which stands for any text up to the part after it. */
static void replace(const char *text, const char *from, const char *to, char *out, size_t room)
{
    const size_t head = strcspn(from, "*");
    const char *tail = from[head] == '*' ? from + head + 1 : "";
    const char *at = text;

    while (strncmp(at, from, head) != 0) assert_true(*at++ != '\0');
    const char *end = *tail == '\0' ? at + head : strstr(at + head, tail);
    assert_non_null(end);
    const int length = snprintf(out, room, "%.*s%s%s", (int)(at - text), text, to, end + strlen(tail));
    assert_true(length > 0 && (size_t)length < room);
}

static void a_gateway_that_lies_is_found_out(void **state)
{
    const struct lie_row *row = *state;
    OWNED(decision) *decision = decide_to_read("192.0.2.7", VERDICT_DENY);
    struct leaf leaf = recorded(decision);
    char text[4096], lie[4096];

    (void)snprintf(text, sizeof text, "%.*s", (int)decision->parts.facts[0].length, (const char *)decision->parts.facts[0].data);
    replace(text, row->from, row->to, lie, sizeof lie);
    const struct bytes facts = bytes_of_text(lie);
    sha256_of(facts, leaf.facts[0]);
    (void)snprintf(leaf.outcome, sizeof leaf.outcome, "%s", row->outcome);
    if (strcmp(row->outcome, "denied") != 0) leaf.reason.rule_count = 0;
    const struct replay_report report = replayed(&leaf, &facts, snapshot.set);
    if (report.verdict != row->verdict || strstr(report.what, row->what) == NULL)
        fail_msg("%d: %s\n%s", report.verdict, report.what, lie);
}

static void what_can_not_be_made_again_says_why(void **state)
{
    OWNED(decision) *decision = decide_to_read("10.1.2.3", VERDICT_ALLOW);
    const struct bytes *facts = decision->parts.facts;
    struct leaf leaf = recorded(decision), old = leaf, own = leaf, large = leaf;
    struct replay_report report;
    struct error err = {0};

    (void)state;
    old.version = 1;
    assert_int_equal(replayed(&old, facts, snapshot.set).verdict, REPLAY_IMPOSSIBLE);
    own.facts_count = large.facts_count = 0;
    own.reason.decision[0] = '\0';
    assert_non_null(strstr(replayed(&own, facts, snapshot.set).what, "by itself"));
    assert_int_equal(replayed(&large, facts, snapshot.set).verdict, REPLAY_DIFFERS); /* facts fit beside one target */
    large.target_count = LEAF_TARGETS_MAX;
    assert_non_null(strstr(replayed(&large, facts, snapshot.set).what, "no room"));
    report = replayed(&leaf, facts, NULL);
    assert_true(report.verdict == REPLAY_IMPOSSIBLE && report.lacks_set);
    assert_true(policy_replay(&leaf, facts, 0, &(struct replay_base){.set = snapshot.set}, &report, &err).ok);
    assert_int_equal(report.verdict, REPLAY_IMPOSSIBLE);
    OWNED(policy_set) *other = draw_set(77);
    assert_non_null(strstr(replayed(&leaf, facts, other).what, "another policy set"));
    leaf.reason.policy[0] = '\0';
    assert_int_equal(replayed(&leaf, facts, snapshot.set).verdict, REPLAY_DIFFERS);
}

/* They have nothing that differs between requests, so they are stored once. */
static void the_same_facts_have_the_same_text(void **state)
{
    OWNED(decision) *first = decide_to_read("10.1.2.3", VERDICT_ALLOW);
    OWNED(decision) *second = decide_to_read("10.1.77.9", VERDICT_ALLOW);
    OWNED(decision) *elsewhere = decide_to_read("192.0.2.7", VERDICT_DENY);
    const struct bytes facts = first->parts.facts[0];

    (void)state;
    assert_true(bytes_equal(facts, second->parts.facts[0]));
    assert_memory_equal(first->facts_digests[0], second->facts_digests[0], SHA256_SIZE);
    assert_false(bytes_equal(facts, elsewhere->parts.facts[0]));
    assert_null(memmem(facts.data, facts.length, "10.1.2.3", 8));
    assert_null(memmem(facts.data, facts.length, "scans", 5)); /* the event says the name */
    assert_null(memmem(facts.data, facts.length, "robot", 5));
}

/* A gateway that sets a label without the policies, or uses an unknown action. */
static const struct action_row {
    const char *name, *action;
    enum replay_verdict verdict;
    const char *resource; /* NULL: the repository that was read */
} action_rows[] = {
    {"an organisation's label, of no project", "project.label", REPLAY_IMPOSSIBLE, "acme"},
    {"a project's label", "project.label", REPLAY_DIFFERS, NULL},
    {"a repository's label", "repository.label", REPLAY_DIFFERS, NULL},
    {"the order of a run", "run.order", REPLAY_DIFFERS, NULL},
    {"an action that there is not", "blob.reap", REPLAY_DIFFERS, NULL},
    {"an action that needs no policies", "audit.read", REPLAY_AGREES, NULL},
};

static void policies_can_not_be_left_out(void **state)
{
    const struct action_row *row = *state;
    OWNED(decision) *decision = decide_to_read("10.1.2.3", VERDICT_ALLOW);
    struct leaf leaf = recorded(decision);
    char text[256];

    (void)snprintf(text, sizeof text, "{\"action\":\"%s\",\"digest\":false,\"judged\":[],\"refused\":[],\"v\":1}", row->action);
    const struct bytes facts = bytes_of_text(text);
    sha256_of(facts, leaf.facts[0]);
    (void)snprintf(leaf.targets[0].action, sizeof leaf.targets[0].action, "%s", row->action);
    if (row->resource != NULL) (void)snprintf(leaf.targets[0].resource, sizeof leaf.targets[0].resource, "%s", row->resource);
    assert_int_equal(replayed(&leaf, &facts, snapshot.set).verdict, row->verdict);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(random_decisions_are_made_again_the_same),
        cmocka_unit_test(each_changed_byte_of_facts_is_refused),
        cmocka_unit_test(what_can_not_be_made_again_says_why),
        cmocka_unit_test(the_same_facts_have_the_same_text),
    };
    const char *seed = getenv("SIJIL_SEED");
    json_t *kept[COUNT(labels)];

    seed_state = seed == NULL ? 20261120 : strtoull(seed, NULL, 10);
    kept[0] = policy_json("{\"class\":\"secret\"}");
    kept[1] = policy_json("{\"subjects\":[\"health\"],\"lineage\":\"attested\"}");
    kept[2] = policy_json("{\"class\":\"open\",\"attached\":[\"ADGM\"]}");
    for (size_t i = 0; i < COUNT(labels); i++) {
        struct error err = {0};
        assert(label_read_floor(kept[i], &labels[i].label, &labels[i].is_stated, &err).ok);
    }
    make_snapshot();
    const int failed = cmocka_run_group_tests_name("replay", others, NULL, NULL) +
                       RUN_TABLE(lie_rows, a_gateway_that_lies_is_found_out) +
                       RUN_TABLE(action_rows, policies_can_not_be_left_out);
    forget_snapshot();
    for (size_t i = 0; i < COUNT(kept); i++) json_decref(kept[i]);
    return failed;
}
