#include "authz/trust_rules.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "authz/snapshot_load.h"
#include "authz/trust_rules_priv.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/memory.h"

static struct result no_memory(struct error *err)
{
    return failure(err, ERROR_NO_MEMORY, "no memory for trust rules");
}

static void entries_free(struct trust_entry *entries, size_t count)
{
    for (size_t i = 0; i < count; i++) json_decref(entries[i].pinned.json);
    free(entries);
}

void trust_rules_free(struct trust_rules *rules)
{
    if (rules == NULL || atomic_fetch_sub(&rules->owners, 1) != 1) return;
    entries_free(rules->entries, rules->count);
    group_entries_free(rules);
    persons_entries_free(rules);
    scim_entries_free(rules);
    glass_entries_free(rules);
    own_role_entries_free(rules);
    officer_entries_free(rules);
    restriction_entries_free(rules);
    free(rules->by_key.slots);
    free(rules);
}

struct trust_rules *trust_rules_keep(const struct trust_rules *rules)
{
    if (rules == NULL) return NULL;
    atomic_fetch_add(&rules->self->owners, 1);
    return rules->self;
}

/* ---- making a list ---- */

static struct result reserve(struct trust_rules *rules, struct error *err)
{
    const size_t capacity = rules->capacity == 0 ? 16 : 2 * rules->capacity;

    if (rules->count < rules->capacity) return SUCCESS;
    struct trust_entry *entries = memory_zeroed(capacity, sizeof *entries);
    if (entries == NULL) return no_memory(err);
    if (rules->count > 0) memcpy(entries, rules->entries, rules->count * sizeof *entries);
    free(rules->entries);
    rules->entries = entries;
    rules->capacity = capacity;
    return SUCCESS;
}

struct pinned_entry pinned_entry_of(const struct pinned_document *pinned)
{
    const struct document *document = pinned->document;
    struct pinned_entry entry = {pinned->sequence, document->effective_ms, document->expires_ms, "", json_incref(document->json)};
    struct digest digest = {.algorithm = DIGEST_SHA256};

    memcpy(digest.bytes, document->digest, sizeof document->digest);
    digest_format(&digest, entry.digest);
    return entry;
}

/* The form of scopes allows longer ones than any organisation and project have. */
static bool write_key(const struct document *document, char key[TRUST_KEY_SIZE])
{
    const int length = snprintf(key, TRUST_KEY_SIZE, "%s:%s", document->scope, document->name);

    return length > 0 && length < TRUST_KEY_SIZE;
}

/* sijil-keyd has pinned it, so it was sound. If this version demands more, the rule does not count. */
static struct result add(void *context, const struct pinned_document *pinned, struct error *err)
{
    const struct document *document = pinned->document;
    struct trust_rules *rules = context;
    struct error refused = {0};
    struct trust_rule rule;

    if (document->is_withdrawn) return SUCCESS;
    if (!trust_rule_read(document, &rule, &refused).ok) return refused.kind == ERROR_NO_MEMORY ? no_memory(err) : SUCCESS;
    TRY(reserve(rules, err));
    struct trust_entry *entry = &rules->entries[rules->count];
    if (!write_key(document, entry->key)) return SUCCESS;
    entry->pinned = pinned_entry_of(pinned);
    entry->rule = rule;
    rules->count++;
    return SUCCESS;
}

static int compare(const void *a, const void *b)
{
    const struct trust_entry *left = a, *right = b;
    const int issuers = strcmp(left->rule.issuer, right->rule.issuer);

    if (issuers != 0) return issuers;
    if (left->rule.priority != right->rule.priority) return left->rule.priority > right->rule.priority ? -1 : 1;
    return strcmp(left->key, right->key);
}

static struct result finish(struct trust_rules *rules, struct error *err)
{
    own_role_entries_sort(rules);
    if (rules->count > 0) qsort(rules->entries, rules->count, sizeof *rules->entries, compare);
    TRY(index_new(rules->count, &rules->by_key, err));
    for (size_t i = 0; i < rules->count; i++) index_add(&rules->by_key, rights_hash(bytes_of_text(rules->entries[i].key)), i);
    return SUCCESS;
}

/* The kinds of documents of a list. The keys of persons come after officers: they are noted in their entries. */
static const struct {
    enum document_kind kind;
    document_visitor *add;
} kinds[] = {{DOCUMENT_TRUST_RULE, add},
             {DOCUMENT_GROUP_ROLES, group_entries_add},
             {DOCUMENT_PERSONS, persons_entries_add},
             {DOCUMENT_BREAK_GLASS, glass_entries_add},
             {DOCUMENT_OWN_ROLE, own_role_entries_add},
             {DOCUMENT_SCIM_SERVICE, scim_entries_add},
             {DOCUMENT_OFFICERS, officer_entries_add},
             {DOCUMENT_SIGNING_KEY, officer_entries_note_key},
             {DOCUMENT_RESTRICTION, restriction_entries_add}};
#define KIND_COUNT (sizeof kinds / sizeof kinds[0])

static struct result begin(struct trust_rules **rules_out, struct error *err)
{
    struct trust_rules *rules = memory_zeroed(1, sizeof *rules);

    if (rules == NULL) return no_memory(err);
    atomic_init(&rules->owners, 1);
    rules->self = rules;
    for (size_t i = 0; i < KIND_COUNT; i++) rules->kinds[kinds[i].kind].is_sound = true;
    *rules_out = rules;
    return SUCCESS;
}

static struct result add_any(struct trust_rules *rules, const struct pinned_document *pinned, struct error *err)
{
    for (size_t i = 0; i < KIND_COUNT; i++)
        if (kinds[i].kind == pinned->document->kind) return kinds[i].add(rules, pinned, err);
    return SUCCESS;
}

struct result trust_rules_of(const struct pinned_document *pinned, size_t count, struct trust_rules **rules_out,
                             struct error *err)
{
    OWNED(trust_rules) *rules = NULL;

    TRY(begin(&rules, err));
    for (size_t i = 0; i < count; i++) TRY(add_any(rules, &pinned[i], err));
    TRY(finish(rules, err));
    *rules_out = GIVE(rules);
    return SUCCESS;
}

/* What the view has of one kind. */
struct seen {
    struct document_reading reading;
    bool is_sound;
};

/* By kind. */
struct all_seen {
    struct seen kinds[DOCUMENT_KIND_COUNT];
};

static bool is_pin(const struct trust_rules_kind *before, const struct seen *seen)
{
    return before->is_sound == seen->is_sound && before->pin.epoch == seen->reading.pin.epoch &&
           memcmp(before->pin.digest, seen->reading.pin.digest, sizeof before->pin.digest) == 0;
}

static bool is_same(const struct trust_rules *before, const struct all_seen *seen)
{
    if (before == NULL) return false;
    for (size_t i = 0; i < KIND_COUNT; i++)
        if (!is_pin(&before->kinds[kinds[i].kind], &seen->kinds[kinds[i].kind])) return false;
    return before->officers_pinned == seen->kinds[DOCUMENT_OFFICERS].reading.pinned &&
           before->officers_in_force == officers_in_force(before, clock_wall_ms());
}

static struct result see(struct document_view *view, enum document_kind kind, const struct document_source *source,
                         struct seen *seen, struct error *err)
{
    struct error found = {0};

    /* Pin and read_until are of one moment: rules with a newer read_until would seem to be compared with a rule that they lack. */
    seen->is_sound = document_view_update(view, kind, source, &seen->reading, &found).ok;
    if (!seen->is_sound && found.kind != ERROR_CORRUPT) return failure(err, found.kind, "%s", found.message);
    return SUCCESS;
}

/* The keys of persons are read if there are officers. */
static struct result see_all(struct document_view *view, const struct document_source *source, struct all_seen *seen,
                             struct error *err)
{
    *seen = (struct all_seen){.kinds[DOCUMENT_SIGNING_KEY].is_sound = true};
    for (size_t i = 0; i < KIND_COUNT; i++) {
        const enum document_kind kind = kinds[i].kind;
        if (kind != DOCUMENT_SIGNING_KEY || seen->kinds[DOCUMENT_OFFICERS].reading.pin.epoch != 0)
            TRY(see(view, kind, source, &seen->kinds[kind], err));
    }
    return SUCCESS;
}

static struct result read_view(struct document_view *view, struct trust_rules *rules, struct error *err)
{
    for (size_t i = 0; i < KIND_COUNT; i++) {
        const struct document_visit visit = {kinds[i].add, rules};
        const bool is_wanted = kinds[i].kind != DOCUMENT_SIGNING_KEY || rules->officer_count > 0;
        if (is_wanted && rules->kinds[kinds[i].kind].is_sound) TRY(document_view_read(view, kinds[i].kind, &visit, err));
    }
    rules->officers_in_force = officers_in_force(rules, clock_wall_ms());
    return finish(rules, err);
}

static void note_seen(struct trust_rules *rules, const struct all_seen *seen)
{
    for (size_t i = 0; i < KIND_COUNT; i++) {
        const struct seen *one = &seen->kinds[kinds[i].kind];
        rules->kinds[kinds[i].kind] = (struct trust_rules_kind){one->reading.pin, one->is_sound};
    }
    rules->officers_pinned = seen->kinds[DOCUMENT_OFFICERS].reading.pinned;
    atomic_init(&rules->read_until, seen->kinds[DOCUMENT_TRUST_RULE].reading.read_until);
}

/* Without sound documents about SCIM nobody knows who may come in, and without restrictions not what an organisation forbids: the rights of before count until they are too old, and then nobody has any. */
static struct result check_soundness(const struct all_seen *seen, struct error *err)
{
    if (!seen->kinds[DOCUMENT_SCIM_SERVICE].is_sound)
        return failure(err, ERROR_CORRUPT, "the documents of SCIM services differ from what sijil-keyd has pinned");
    if (seen->kinds[DOCUMENT_RESTRICTION].is_sound) return SUCCESS;
    return failure(err, ERROR_CORRUPT, "the restrictions of organisations differ from what sijil-keyd has pinned");
}

struct result trust_rules_load(struct document_view *view, const struct document_source *source, const struct trust_rules *before,
                               struct trust_rules **rules_out, struct error *err)
{
    OWNED(trust_rules) *rules = NULL;
    struct all_seen seen;

    TRY(see_all(view, source, &seen, err));
    TRY(check_soundness(&seen, err));
    if (is_same(before, &seen)) {
        atomic_store(&before->self->read_until, seen.kinds[DOCUMENT_TRUST_RULE].reading.read_until);
        *rules_out = trust_rules_keep(before);
        return SUCCESS;
    }
    TRY(begin(&rules, err));
    note_seen(rules, &seen);
    TRY(read_view(view, rules, err));
    *rules_out = GIVE(rules);
    return SUCCESS;
}

/* ---- looking ---- */

uint64_t trust_rules_read_until(const struct trust_rules *rules)
{
    return rules == NULL ? 0 : atomic_load(&rules->self->read_until);
}

size_t trust_rules_count(const struct trust_rules *rules)
{
    return rules == NULL ? 0 : rules->count;
}

const struct trust_entry *trust_rules_at(const struct trust_rules *rules, size_t number)
{
    return &rules->entries[number];
}

const struct trust_entry *trust_rules_find(const struct trust_rules *rules, const char *key)
{
    uint64_t at = rights_hash(bytes_of_text(key));

    if (rules == NULL) return NULL;
    for (uint64_t entry; (entry = index_next(&rules->by_key, &at)) != 0;)
        if (strcmp(rules->entries[entry - 1].key, key) == 0) return &rules->entries[entry - 1];
    return NULL;
}

bool pinned_entry_is_in_force(const struct pinned_entry *entry, int64_t now_ms)
{
    return entry->effective_ms <= now_ms + PINNED_EARLY_MS && now_ms < entry->expires_ms;
}

/* The first rule of this issuer. */
static size_t first_of(const struct trust_rules *rules, const char *issuer)
{
    size_t low = 0, high = rules->count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (strcmp(rules->entries[middle].rule.issuer, issuer) < 0) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* "acme" of "acme/models" and "acme/models:gh-train". */
static struct bytes organisation_of(const char *text)
{
    return (struct bytes){(const uint8_t *)text, strcspn(text, "/:")};
}

const struct trust_entry *trust_rules_meeting(const struct trust_rules *rules, const struct trust_rule *rule, const char *scope,
                                              int64_t now_ms, size_t *at)
{
    while (rules != NULL && *at < rules->count) {
        const struct trust_entry *entry = &rules->entries[(*at)++];
        if (now_ms < entry->pinned.expires_ms && !bytes_equal(organisation_of(entry->key), organisation_of(scope)) &&
            trust_rules_meet(&entry->rule, rule))
            return entry;
    }
    return NULL;
}

const struct trust_entry *trust_rules_match(const struct trust_rules *rules, const json_t *claims, int64_t now_ms, size_t *at)
{
    const char *issuer = json_text_of(claims, "iss");

    if (rules == NULL || issuer == NULL) return NULL;
    if (*at == 0) *at = first_of(rules, issuer);
    while (*at < rules->count) {
        const struct trust_entry *entry = &rules->entries[*at];
        if (strcmp(entry->rule.issuer, issuer) != 0) return NULL;
        (*at)++;
        if (pinned_entry_is_in_force(&entry->pinned, now_ms) && trust_rule_matches(&entry->rule, claims)) return entry;
    }
    return NULL;
}
