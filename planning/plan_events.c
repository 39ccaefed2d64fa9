/* The log of the last days, decided again. Equal events are counted while the log is read, and decided once. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "audit/format/leaf_glance.h"
#include "base/clock.h"
#include "base/memory.h"
#include "planning/plan_priv.h"

#define SPAN      ((uint64_t)8192) /* numbers of a page: some 7 MiB */
#define DAY_MS    INT64_C(86400000)
#define KNOWN_MAX 64 /* a project's repositories have a few labels */
#define KEY_MAX   ((size_t)LEAF_TARGETS_MAX * (LEAF_FACTS_DIGEST + LEAF_RESOURCE_MAX + 40) + 160)

struct reading {
    struct planning *planning;
    struct plan_groups *groups;
    struct plan_rows rows;
    struct plan_ahead ahead;
    uint64_t from, until, at, released, others;
    struct plan_sets *sets;
    struct plan_classes *classes;
    bool asks_digests;
    uint8_t facts[LEAF_FACTS_DIGEST]; /* of `row` */
    struct pg_rows *row;              /* the facts that were read last; NULL: none */
};

/* ---- which entries ---- */

/* Times never fall, so a search by halves finds the first entry that is not older. */
static struct result find_first(struct reading *reading, int64_t since_ms, struct error *err)
{
    uint64_t low = 0, high = reading->until;

    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        int64_t time_ms = 0;
        bool is_there = false;
        TRY(plan_log_entry(reading->planning->source->pg, middle, &time_ms, &is_there, err));
        if (is_there && time_ms < since_ms) low = middle + 1;
        else high = middle;
    }
    reading->from = reading->at = low;
    return SUCCESS;
}

/* ---- counting ---- */

struct key {
    size_t length;
    uint8_t bytes[KEY_MAX];
};

static void add_bytes(struct key *key, const void *data, size_t length)
{
    memcpy(key->bytes + key->length, data, length);
    key->length += length;
}

static void add_text(struct key *key, struct bytes text)
{
    add_bytes(key, text.data, text.length);
    add_bytes(key, "", 1);
}

static size_t length_until(struct bytes text, char end)
{
    const uint8_t *found = text.length == 0 ? NULL : memchr(text.data, end, text.length);

    return found == NULL ? text.length : (size_t)(found - text.data);
}

/* The name, and the digest of the content if that counts. */
static void add_resource(struct key *key, struct bytes resource, bool with_digest)
{
    static const char digest[] = "#sha256:";
    const size_t name = length_until(resource, '#');
    const struct bytes detail = {resource.data + name, resource.length - name};

    if (!with_digest || detail.length < sizeof digest || memcmp(detail.data, digest, sizeof digest - 1) != 0)
        add_text(key, (struct bytes){resource.data, name});
    else add_text(key, (struct bytes){resource.data, name + length_until(detail, ' ')});
}

static void add_target(struct key *key, const struct leaf_glance *event, size_t target, bool with_digest)
{
    add_bytes(key, event->facts[target], LEAF_FACTS_DIGEST);
    add_resource(key, event->targets[target].resource, with_digest);
    add_text(key, event->targets[target].action);
}

/* What decides comes first, so that groups with the same first target follow each other. */
static void make_key(const struct reading *reading, const struct leaf_glance *event, struct key *key)
{
    key->length = 0;
    add_target(key, event, 0, reading->asks_digests);
    add_text(key, bytes_of_text(event->policy));
    add_text(key, event->actor);
    for (size_t i = 1; i < event->facts_count; i++) add_target(key, event, i, reading->asks_digests);
}

/* ---- deciding ---- */

struct parsed {
    const uint8_t *facts;
    const char *action;
    char name[LEAF_RESOURCE_MAX + 1], *digest; /* digest NULL: the event has none */
};

static const uint8_t *read_target(const uint8_t *at, struct parsed *parsed)
{
    parsed->facts = at;
    const char *resource = (const char *)at + LEAF_FACTS_DIGEST;
    (void)snprintf(parsed->name, sizeof parsed->name, "%s", resource);
    parsed->digest = strchr(parsed->name, '#');
    if (parsed->digest != NULL) *parsed->digest++ = '\0';
    parsed->action = resource + strlen(resource) + 1;
    return (const uint8_t *)parsed->action + strlen(parsed->action) + 1;
}

static struct result read_facts(struct reading *reading, const uint8_t *digest, struct bytes *facts_out, struct error *err)
{
    if (reading->row == NULL || memcmp(reading->facts, digest, LEAF_FACTS_DIGEST) != 0) {
        pg_rows_free(reading->row);
        reading->row = NULL;
        TRY(plan_facts(reading->planning->source->pg, digest, &reading->row, err));
        memcpy(reading->facts, digest, LEAF_FACTS_DIGEST);
    }
    *facts_out = pg_rows_count(reading->row) == 0 ? (struct bytes){NULL, 0} : pg_bytes(reading->row, 0, 0);
    return SUCCESS;
}

static struct result decide(struct reading *reading, const struct parsed *parsed, const char *policy,
                            struct plan_answer *answer_out, struct error *err)
{
    struct plan_event event = {.name = parsed->name, .digest = parsed->digest};

    TRY(plan_sets_find(reading->sets, policy, &event.then, err));
    TRY(read_facts(reading, parsed->facts, &event.facts, err));
    return policy_plan_event(reading->planning->plan, &event, answer_out, err);
}

/* A request is denied if one of its targets is. */
static void join(struct plan_answer *whole, const struct plan_answer *further)
{
    static const bool was[PLAN_CHANGES] = {[PLAN_DENIED] = true, [PLAN_NEWLY_ALLOWED] = true};
    static const bool will[PLAN_CHANGES] = {[PLAN_DENIED] = true, [PLAN_NEWLY_DENIED] = true};
    const bool was_denied = was[whole->change] || was[further->change], is_denied = will[whole->change] || will[further->change];

    if (whole->change == PLAN_UNDECIDED) return;
    if (further->change == PLAN_UNDECIDED || whole->change == PLAN_ALLOWED) *whole = *further;
    if (further->change == PLAN_UNDECIDED) return;
    whole->change = was_denied && is_denied ? PLAN_DENIED
                    : is_denied             ? PLAN_NEWLY_DENIED
                    : was_denied            ? PLAN_NEWLY_ALLOWED
                                            : PLAN_ALLOWED;
}

/* Answers about first targets with the same facts, which follow each other: names of one class have one answer. */
struct known {
    const uint8_t *facts; /* NULL: none yet */
    size_t count;
    struct question {
        unsigned class_number;
        const char *policy, *digest; /* views of keys; digest "": none, or it does not count */
        struct plan_answer answer;
    } each[KNOWN_MAX];
};

static void known_free(struct known *known)
{
    free(known);
}
DEFINE_OWNED(known);

static const struct question *find_known(const struct known *known, const struct question *asked)
{
    for (size_t i = 0; i < known->count; i++) {
        const struct question *each = &known->each[i];
        if (each->class_number == asked->class_number && strcmp(each->policy, asked->policy) == 0 &&
            strcmp(each->digest, asked->digest) == 0)
            return each;
    }
    return NULL;
}

/* The digest of `parsed` is copied with its name, so what stays is the one in the key. */
static struct result decide_first(struct reading *reading, const struct parsed *parsed, const char *policy, struct known *known,
                                  const struct plan_answer **answer_out, struct error *err)
{
    const char *resource = (const char *)parsed->facts + LEAF_FACTS_DIGEST, *digest = strchr(resource, '#');
    struct question asked = {.policy = policy, .digest = digest == NULL ? "" : digest};

    if (known->facts == NULL || memcmp(known->facts, parsed->facts, LEAF_FACTS_DIGEST) != 0) known->count = 0;
    known->facts = parsed->facts;
    TRY(plan_classes_find(reading->classes, parsed->name, &asked.class_number, err));
    const struct question *found = asked.class_number == 0 ? NULL : find_known(known, &asked);
    if (found == NULL) {
        TRY(decide(reading, parsed, policy, &asked.answer, err));
        if (asked.answer.is_of_name) asked.class_number = 0;
        const size_t place = known->count < KNOWN_MAX ? known->count++ : KNOWN_MAX - 1;
        known->each[place] = asked;
        found = &known->each[place];
    }
    *answer_out = &found->answer;
    return SUCCESS;
}

static struct result decide_group(struct reading *reading, const struct plan_group *group, struct known *known, struct error *err)
{
    const struct bytes key = plan_groups_key(reading->groups, group);
    const uint8_t *end = key.data + key.length;
    struct parsed parsed, further;
    const char *policy = (const char *)read_target(key.data, &parsed), *actor = policy + strlen(policy) + 1;
    const struct plan_answer *first = NULL;
    const struct plan_fact fact = {actor, parsed.action, parsed.name};

    TRY(decide_first(reading, &parsed, policy, known, &first, err));
    struct plan_answer answer = *first;
    for (const uint8_t *at = (const uint8_t *)actor + strlen(actor) + 1; at < end;) {
        struct plan_answer other;
        at = read_target(at, &further);
        TRY(decide(reading, &further, policy, &other, err));
        join(&answer, &other);
    }
    return plan_rows_add(&reading->rows, &fact, &answer, group, err);
}

static bool goes_on(const struct reading *reading)
{
    return planning_goes_on(reading->planning, PLAN_OF_EVENTS, reading->at - reading->from, reading->until - reading->from);
}

static struct result decide_groups(struct reading *reading, struct error *err)
{
    OWNED(known) *known = memory_zeroed(1, sizeof *known);
    size_t count = 0;
    const struct plan_group *groups = plan_groups_sort(reading->groups, &count);

    if (known == NULL) return planning_no_memory(err);
    plan_ahead_settle(&reading->ahead); /* its connection is needed */
    for (size_t i = 0; i < count && goes_on(reading); i++) TRY(decide_group(reading, &groups[i], known, err));
    plan_groups_clear(reading->groups);
    return SUCCESS;
}

/* ---- reading ---- */

/* The same of a leaf that only the thorough reader reads. */
static void glance_of(const struct leaf *leaf, struct leaf_glance *event)
{
    event->actor = bytes_of_text(leaf->actor);
    event->target_count = leaf->target_count;
    event->facts_count = leaf->facts_count;
    memcpy(event->facts, leaf->facts, sizeof event->facts);
    memcpy(event->policy, leaf->reason.policy, sizeof event->policy);
    for (size_t i = 0; i < leaf->target_count; i++) {
        event->targets[i].action = bytes_of_text(leaf->targets[i].action);
        event->targets[i].resource = bytes_of_text(leaf->targets[i].resource);
    }
}

static struct result add_event(struct reading *reading, const struct leaf_glance *event, uint64_t sequence, struct error *err)
{
    struct key key;

    /* The look at places is no request: what could not stay is a part of the plan by itself. */
    if (event->facts_count == 0 || bytes_equal(event->targets[0].action, bytes_of_text("placement.check"))) {
        reading->others++;
        return SUCCESS;
    }
    make_key(reading, event, &key);
    if (plan_groups_add(reading->groups, (struct bytes){key.bytes, key.length}, sequence)) return SUCCESS;
    TRY(decide_groups(reading, err));
    (void)plan_groups_add(reading->groups, (struct bytes){key.bytes, key.length}, sequence);
    return SUCCESS;
}

/* Events without facts were not decided by policies: requests of nobody, bursts, and the server's own work. */
static struct result take_entry(struct reading *reading, struct bytes text, uint64_t sequence, struct error *err)
{
    struct leaf_glance event;
    struct leaf leaf;
    struct error why = {0};

    if (leaf_glance(text, &event)) return add_event(reading, &event, sequence, err);
    if (text.length == 0) reading->released++;
    else if (leaf_read(text, &leaf, &why).ok) {
        glance_of(&leaf, &event);
        return add_event(reading, &event, sequence, err);
    } else if (why.kind == ERROR_NO_MEMORY) return planning_no_memory(err);
    else reading->others++;
    return SUCCESS;
}

static uint64_t page_end(const struct reading *reading, uint64_t from)
{
    return reading->until - from < SPAN ? reading->until : from + SPAN;
}

/* The next page is read meanwhile. */
static struct result count_page(struct reading *reading, struct error *err)
{
    const uint64_t until = page_end(reading, reading->at);
    OWNED(pg_rows) *rows = NULL;

    TRY(plan_ahead_take(&reading->ahead, &rows, err));
    reading->at = until;
    if (!goes_on(reading)) return SUCCESS;
    if (until < reading->until) plan_ahead_begin(&reading->ahead, until, page_end(reading, until));
    for (size_t i = 0; i < pg_rows_count(rows); i++)
        TRY(take_entry(reading, pg_bytes(rows, i, 1), (uint64_t)pg_int8(rows, i, 0), err));
    return SUCCESS;
}

static struct result describe_log(const struct reading *reading, int64_t since_ms, struct error *err)
{
    char since[CLOCK_TEXT_SIZE];

    clock_format(since_ms, since);
    return planning_set(reading->planning, "log",
                        json_pack("{s:I, s:I, s:I, s:s, s:I, s:I}", "days", (json_int_t)reading->planning->days, "from",
                                  (json_int_t)reading->from, "until", (json_int_t)reading->until, "since", since, "released",
                                  (json_int_t)reading->released, "others", (json_int_t)reading->others),
                        err);
}

static struct result read_all(struct reading *reading, struct error *err)
{
    const int64_t since_ms = reading->planning->source->now_ms - reading->planning->days * DAY_MS;

    TRY(plan_log_size(reading->planning->source->pg, &reading->until, err));
    TRY(find_first(reading, since_ms, err));
    if (reading->at < reading->until) plan_ahead_begin(&reading->ahead, reading->at, page_end(reading, reading->at));
    while (reading->at < reading->until && !reading->planning->is_stopped) TRY(count_page(reading, err));
    TRY(decide_groups(reading, err));
    TRY(plan_rows_write(&reading->rows, reading->planning, err));
    return describe_log(reading, since_ms, err);
}

struct result plan_events(struct planning *planning, struct error *err)
{
    OWNED(plan_groups) *groups = NULL;
    OWNED(plan_sets) *sets = NULL;
    OWNED(plan_classes) *classes = NULL;
    struct reading reading = {
        .planning = planning, .ahead = {.pg = planning->source->pg}, .asks_digests = policy_plan_asks_digests(planning->plan)};

    TRY(plan_groups_new(&groups, err));
    TRY(plan_sets_new(planning, &sets, err));
    TRY(plan_classes_new(planning, &classes, err));
    reading.groups = groups;
    reading.classes = classes;
    reading.sets = sets;
    TRY(plan_rows_init(&reading.rows, err));
    const struct result read = read_all(&reading, err);
    plan_ahead_done(&reading.ahead);
    plan_rows_done(&reading.rows);
    pg_rows_free(reading.row);
    return read;
}
