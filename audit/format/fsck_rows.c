/* Tags and bindings stand in rows that are not signed. What they must be follows from the events, in their order. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "audit/format/fsck_priv.h"
#include "audit/format/fsck_table_priv.h"
#include "audit/format/succession.h"
#include "base/memory.h"
#include "base/text.h"

#define WORDS_MAX 16 /* of a detail: a push has a digest and at most 12 tags */

struct result fsck_rows_new(const uint8_t key[TABLE_KEY_SIZE], uint64_t memory, struct fsck_rows **rows_out, struct error *err)
{
    OWNED(fsck_rows) *rows = memory_zeroed(1, sizeof *rows);

    if (rows == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for checking rows");
    memcpy(rows->secret, key, sizeof rows->secret);
    TRY(fsck_table_init(&rows->table, memory, err));
    *rows_out = GIVE(rows);
    return SUCCESS;
}

void fsck_rows_free(struct fsck_rows *rows)
{
    if (rows == NULL) return;
    free(rows->table.slots);
    free(rows);
}

/* ---- names ---- */

static uint64_t hash_of(const struct fsck_rows *rows, char kind, struct bytes first, struct bytes second, struct bytes third)
{
    const struct bytes parts[FSCK_NAME_PARTS] = {first, second, third};

    return fsck_table_hash(rows->secret, kind, parts);
}

/* NULL: there is none. */
static struct fsck_slot *find(const struct fsck_rows *rows, uint64_t key)
{
    return fsck_table_find(&rows->table, key);
}

static struct result get(struct fsck_rows *rows, uint64_t key, struct fsck_slot **slot_out, struct error *err)
{
    return fsck_table_get(&rows->table, key, slot_out, err);
}

/* Of "acme/models/digits": itself, "acme/models" and "acme". */
static void set_scopes(const struct fsck_rows *rows, struct bytes name, uint64_t scopes[3])
{
    size_t count = 1, slashes = 0;

    scopes[0] = fsck_rows_hash(rows, 'S', name);
    scopes[1] = scopes[2] = scopes[0];
    for (size_t i = 0; i < name.length && slashes < 2; i++)
        if (name.data[i] == '/') {
            scopes[count++] = fsck_rows_hash(rows, 'S', (struct bytes){name.data, i});
            slashes++;
        }
}

/* The last deletion of one of the places: its number plus 1; 0: none. */
static uint64_t deleted_at(const struct fsck_rows *rows, const uint64_t scopes[3])
{
    uint64_t last = 0;

    for (size_t i = 0; i < 3; i++) {
        const struct fsck_slot *slot = find(rows, scopes[i]);
        if (slot != NULL && slot->sequence > last) last = slot->sequence;
    }
    return last;
}

/* ---- events ---- */

struct words {
    size_t count;
    struct bytes words[WORDS_MAX];
};

/* A target of an event, in its parts. */
struct happening {
    const struct leaf *leaf;
    const char *action;
    struct bytes name;
    struct words detail;
};

static void split(const char *detail, struct words *words)
{
    words->count = 0;
    while (*detail != '\0' && words->count < WORDS_MAX) {
        const size_t length = strcspn(detail, " ");
        words->words[words->count++] = (struct bytes){(const uint8_t *)detail, length};
        detail += length;
        detail += strspn(detail, " ");
    }
}

static bool is_digest(struct bytes word)
{
    return word.length > 7 && memcmp(word.data, "sha", 3) == 0 && memchr(word.data, ':', word.length) != NULL;
}

static struct result push(struct fsck_rows *rows, const struct happening *event, struct error *err)
{
    const struct words *words = &event->detail;

    if (words->count < 2 || !is_digest(words->words[0])) return SUCCESS;
    for (size_t i = 1; i < words->count; i++) {
        struct fsck_slot *slot = NULL;
        TRY(get(rows, hash_of(rows, 'T', event->name, words->words[i], (struct bytes){0}), &slot, err));
        slot->value = hash_of(rows, 'M', event->name, words->words[0], (struct bytes){0});
        slot->sequence = event->leaf->sequence + 1;
        slot->flags = IS_TAG;
        set_scopes(rows, event->name, slot->scopes);
    }
    return SUCCESS;
}

static struct result untag(struct fsck_rows *rows, const struct happening *event, struct error *err)
{
    (void)err;
    if (event->detail.count == 0) return SUCCESS;
    struct fsck_slot *slot = find(rows, hash_of(rows, 'T', event->name, event->detail.words[0], (struct bytes){0}));
    if (slot != NULL) slot->flags |= IS_GONE;
    return SUCCESS;
}

/* A collection may be that of a repository that was deleted, while a new one has its name: then its event says nothing about the new one. */
static struct result remove_manifest(struct fsck_rows *rows, const struct happening *event, struct error *err)
{
    uint64_t scopes[3];
    struct fsck_slot *slot = NULL;

    if (event->detail.count == 0) return SUCCESS;
    TRY(get(rows, hash_of(rows, 'M', event->name, event->detail.words[0], (struct bytes){0}), &slot, err));
    set_scopes(rows, event->name, scopes);
    slot->sequence = event->leaf->sequence + 1;
    if (strcmp(event->action, "manifest.collect") == 0 && deleted_at(rows, scopes) > 0) slot->flags |= IS_UNSURE;
    return SUCCESS;
}

static struct result delete_place(struct fsck_rows *rows, const struct happening *event, struct error *err)
{
    struct fsck_slot *slot = NULL;

    TRY(get(rows, fsck_rows_hash(rows, 'S', event->name), &slot, err));
    slot->sequence = event->leaf->sequence + 1;
    return SUCCESS;
}

/* "ROLE HOLDER ID ...". Bindings of a first start are recorded before they have an id. So is a repeat of somebody's request, which has given nothing. */
static struct result grant(struct fsck_rows *rows, const struct happening *event, struct error *err)
{
    const struct words *words = &event->detail;
    struct fsck_slot *slot = NULL;

    if (words->count < 2) return SUCCESS;
    const uint64_t value = hash_of(rows, 'G', words->words[0], words->words[1], event->name);
    if (words->count == 2) return strcmp(event->leaf->actor, "system") == 0 ? get(rows, value, &slot, err) : SUCCESS;
    TRY(get(rows, fsck_rows_hash(rows, 'B', words->words[2]), &slot, err));
    slot->value = value;
    slot->sequence = event->leaf->sequence + 1;
    slot->flags = IS_BINDING;
    set_scopes(rows, event->name, slot->scopes);
    slot->holder = fsck_rows_hash(rows, 'H', words->words[1]);
    return SUCCESS;
}

static struct result revoke(struct fsck_rows *rows, const struct happening *event, struct error *err)
{
    (void)err;
    if (event->detail.count == 0) return SUCCESS;
    struct fsck_slot *slot = find(rows, fsck_rows_hash(rows, 'B', event->detail.words[0]));
    if (slot != NULL) slot->flags |= IS_GONE;
    return SUCCESS;
}

static uint64_t hash_of_robot(const struct fsck_rows *rows, struct bytes id)
{
    char holder[64]; /* "robot:" and a UUID; a longer word is no robot */

    (void)snprintf(holder, sizeof holder, "robot:%.*s", (int)(id.length < 40 ? id.length : 40), (const char *)id.data);
    return fsck_rows_hash(rows, 'H', bytes_of_text(holder));
}

static struct result end_robot(struct fsck_rows *rows, const struct happening *event, struct error *err)
{
    struct fsck_slot *slot = NULL;

    if (event->detail.count == 0) return SUCCESS;
    TRY(get(rows, hash_of_robot(rows, event->detail.words[event->detail.count - 1]), &slot, err));
    slot->flags |= IS_GONE;
    return SUCCESS;
}

/* The roles of the administrator that the server itself has made have no event of their own, and end with the next such administrator. */
static struct result make_administrator(struct fsck_rows *rows, const struct happening *event, struct error *err)
{
    struct fsck_slot *slot = NULL, *before = rows->administrator == 0 ? NULL : find(rows, rows->administrator);

    if (strcmp(event->leaf->actor, "system") != 0 || event->name.length > 0 || event->detail.count < 2) return SUCCESS;
    if (before != NULL) before->flags |= IS_GONE;
    rows->administrator = hash_of_robot(rows, event->detail.words[1]);
    TRY(get(rows, rows->administrator, &slot, err));
    slot->flags |= IS_ADMINISTRATOR;
    return SUCCESS;
}

/* The person with this pseudonym was erased: what is sealed for it goes. */
static struct result erase(struct fsck_rows *rows, const struct happening *event, struct error *err)
{
    struct fsck_slot *slot = NULL;

    if (event->detail.count == 0 || strcmp(event->leaf->actor, "system") != 0) return SUCCESS;
    TRY(get(rows, fsck_rows_hash(rows, 'E', event->detail.words[0]), &slot, err));
    slot->sequence = event->leaf->sequence + 1;
    slot->flags |= IS_PERSON;
    return SUCCESS;
}

#define DONE  "allowed"   /* recorded with the change */
#define LATER "completed" /* recorded when it was done, after an event that allowed it */

static const struct event_row {
    const char *action, *outcome;
    struct result (*take)(struct fsck_rows *rows, const struct happening *event, struct error *err);
} events[] = {
    {"manifest.push", DONE, push},
    {"manifest.promote", DONE, push},
    {"tag.delete", DONE, untag},
    {"manifest.delete", DONE, remove_manifest},
    {"manifest.collect", DONE, remove_manifest},
    {"manifest.expire", DONE, remove_manifest},
    {"repository.delete", LATER, delete_place},
    {"project.delete", LATER, delete_place},
    {"organisation.delete", LATER, delete_place},
    {"binding.create", DONE, grant},
    {"binding.revoke", DONE, revoke},
    {"robot.revoke", DONE, end_robot},
    {"robot.create", DONE, make_administrator},
    {"administrator.replace", DONE, make_administrator},
    {"subject.erase", LATER, erase}, /* sealed parts go behind the event that tells that the key is destroyed */
};
#define EVENT_COUNT (sizeof events / sizeof events[0])

static const struct event_row *event_of(const char *action, const char *outcome)
{
    for (size_t i = 0; i < EVENT_COUNT; i++)
        if (strcmp(events[i].action, action) == 0 && strcmp(events[i].outcome, outcome) == 0) return &events[i];
    return NULL;
}

#define UNWRAPS_ACTION "keyd.unwraps"

bool fsck_rows_need(const char *action, const char *outcome)
{
    return event_of(action, outcome) != NULL || fsck_persons_need(action, outcome) ||
           (strcmp(outcome, DONE) == 0 && (strcmp(action, UNWRAPS_ACTION) == 0 || strcmp(action, SUCCESSION_ACTION) == 0));
}

/* "COUNT,sha256:HEX": the number never falls, and the head of the chain changes exactly with it. */
static void follow_chain(struct fsck *fsck, const struct happening *event, const char *detail)
{
    struct fsck_rows *rows = fsck->rows;
    const size_t digits = strcspn(detail, ",");
    uint64_t count = 0;

    if (detail[digits] != ',' || !text_to_u64((struct bytes){(const uint8_t *)detail, digits}, UINT64_MAX, &count)) {
        fsck_find(fsck, FSCK_UNWRAPS, event->leaf->sequence, "its report of unwraps can't be read");
        return;
    }
    const bool is_same = strcmp(rows->chain, detail + digits + 1) == 0;
    if (rows->has_chain && (count < rows->unwraps || (count == rows->unwraps) != is_same))
        fsck_find(fsck, FSCK_UNWRAPS, event->leaf->sequence,
                  "sijil-keyd has unwrapped %" PRIu64 " keys by this event, and %" PRIu64
                  " by an earlier one: its ledger was set back, or is another",
                  count, rows->unwraps);
    rows->has_chain = true;
    rows->unwraps = fsck->report.unwraps = count;
    (void)snprintf(rows->chain, sizeof rows->chain, "%s", detail + digits + 1);
}

struct result fsck_rows_event(struct fsck *fsck, const struct leaf *leaf, struct error *err)
{
    TRY(fsck_persons_event(fsck, leaf, err));
    for (size_t i = 0; i < leaf->target_count; i++) {
        const struct leaf_target *target = &leaf->targets[i];
        const size_t name = strcspn(target->resource, "#");
        const char *detail = target->resource[name] == '#' ? target->resource + name + 1 : "";
        struct happening event = {leaf, target->action, {(const uint8_t *)target->resource, name}, {.count = 0}};
        const struct event_row *row = event_of(target->action, leaf->outcome);
        if (strcmp(target->action, UNWRAPS_ACTION) == 0) follow_chain(fsck, &event, detail);
        if (row == NULL) continue;
        split(detail, &event.detail);
        TRY(row->take(fsck->rows, &event, err));
    }
    return SUCCESS;
}

/* An event of the erasure may come later, so this is judged at the end. */
struct result fsck_rows_lack(struct fsck *fsck, uint64_t number, struct bytes actor, struct error *err)
{
    struct fsck_slot *slot = NULL;

    TRY(get(fsck->rows, fsck_rows_hash(fsck->rows, 'E', actor), &slot, err));
    if (slot->value++ == 0) slot->holder = number;
    slot->scopes[0] = number;
    slot->flags |= IS_PERSON;
    return SUCCESS;
}

static void judge_lack(struct fsck *fsck, const struct fsck_slot *slot)
{
    if (slot->value == 0) return;
    if (slot->sequence > slot->scopes[0]) {
        fsck->report.erased += slot->value;
        return;
    }
    fsck_find(fsck, FSCK_PAYLOAD, slot->holder,
              "its sealed part, or its key, is missing, and no event has erased it; %" PRIu64 " entries of this actor lack it",
              slot->value);
    fsck->report.findings[FSCK_PAYLOAD] += slot->value - 1;
}

/* ---- rows ---- */

enum tag_state { TAG_IS_THERE, TAG_IS_GONE, TAG_IS_UNSURE };

static enum tag_state state_of_tag(const struct fsck_rows *rows, const struct fsck_slot *slot)
{
    const struct fsck_slot *manifest = find(rows, slot->value);

    if ((slot->flags & IS_GONE) != 0 || deleted_at(rows, slot->scopes) > slot->sequence) return TAG_IS_GONE;
    if (manifest == NULL || manifest->sequence < slot->sequence) return TAG_IS_THERE;
    return (manifest->flags & IS_UNSURE) != 0 ? TAG_IS_UNSURE : TAG_IS_GONE;
}

static int length_of(struct bytes text)
{
    return (int)(text.length < 60 ? text.length : 60);
}

void fsck_rows_tag(struct fsck *fsck, const struct dump_tag *tag)
{
    const struct fsck_rows *rows = fsck->rows;

    if (!fsck_is_in_last_pass(fsck)) return;
    fsck->report.tags++;
    struct fsck_slot *slot = find(rows, hash_of(rows, 'T', tag->repository, tag->tag, (struct bytes){0}));
    if (slot == NULL || state_of_tag(rows, slot) == TAG_IS_GONE) {
        fsck_find(fsck, FSCK_TAG, slot == NULL ? fsck->head.size : slot->sequence - 1,
                  "the tag %.*s of %.*s is stored, and by the events there is none", length_of(tag->tag),
                  (const char *)tag->tag.data, length_of(tag->repository), (const char *)tag->repository.data);
        if (slot != NULL) slot->flags |= IS_SEEN;
        return;
    }
    slot->flags |= IS_SEEN;
    if (slot->value != hash_of(rows, 'M', tag->repository, tag->digest, (struct bytes){0}))
        fsck_find(fsck, FSCK_TAG, slot->sequence - 1, "it pushed another manifest as %.*s of %.*s than the stored one",
                  length_of(tag->tag), (const char *)tag->tag.data, length_of(tag->repository),
                  (const char *)tag->repository.data);
}

static bool is_granted_without_id(const struct fsck_rows *rows, const struct dump_binding *binding)
{
    const struct fsck_slot *robot = find(rows, fsck_rows_hash(rows, 'H', binding->holder));
    const bool is_first_role =
        bytes_equal(binding->role, bytes_of_text("registry-admin")) || bytes_equal(binding->role, bytes_of_text("auditor"));

    if (find(rows, hash_of(rows, 'G', binding->role, binding->holder, binding->scope)) != NULL) return true;
    return robot != NULL && (robot->flags & IS_ADMINISTRATOR) != 0 && is_first_role && binding->scope.length == 0;
}

/* What is wrong with a binding that gives rights now; NULL: nothing. */
static const char *fault_of(const struct fsck_rows *rows, const struct dump_binding *binding, const struct fsck_slot *slot)
{
    const struct fsck_slot *robot = find(rows, fsck_rows_hash(rows, 'H', binding->holder));

    if (slot == NULL && !is_granted_without_id(rows, binding)) return "no event has granted it";
    if (slot != NULL && slot->value != hash_of(rows, 'G', binding->role, binding->holder, binding->scope))
        return "its event has another role, holder or scope";
    if (slot != NULL && (slot->flags & IS_GONE) != 0) return "it was revoked";
    if (robot != NULL && (robot->flags & IS_GONE) != 0) return "its robot was revoked";
    return NULL;
}

void fsck_rows_binding(struct fsck *fsck, const struct dump_binding *binding)
{
    char id[UUID_TEXT_SIZE];

    if (!fsck_is_in_last_pass(fsck)) return;
    fsck->report.bindings++;
    uuid_format(&binding->id, id);
    struct fsck_slot *slot = find(fsck->rows, fsck_rows_hash(fsck->rows, 'B', bytes_of_text(id)));
    if (slot != NULL) slot->flags |= IS_SEEN;
    const char *fault = binding->is_live ? fault_of(fsck->rows, binding, slot) : NULL;
    if (fault != NULL)
        fsck_find(fsck, FSCK_BINDING, slot == NULL ? fsck->head.size : slot->sequence - 1, "the binding %s gives rights: %s", id,
                  fault);
}

static void find_dropped(struct fsck *fsck, const struct fsck_slot *slot)
{
    const struct fsck_rows *rows = fsck->rows;
    const struct fsck_slot *robot = find(rows, slot->holder);

    if ((slot->flags & IS_PERSON) != 0) judge_lack(fsck, slot);
    fsck_persons_judge(fsck, slot);
    if ((slot->flags & IS_SEEN) != 0) return;
    if ((slot->flags & IS_TAG) != 0 && state_of_tag(rows, slot) == TAG_IS_THERE)
        fsck_find(fsck, FSCK_TAG, slot->sequence - 1, "a tag that it set is not stored, and no event has removed it");
    if ((slot->flags & (IS_BINDING | IS_GONE)) == IS_BINDING && deleted_at(rows, slot->scopes) < slot->sequence &&
        (robot == NULL || (robot->flags & IS_GONE) == 0))
        fsck_find(fsck, FSCK_BINDING, slot->sequence - 1, "the binding that it granted is not stored, and no event has ended it");
}

void fsck_rows_end(struct fsck *fsck)
{
    const struct fsck_table *table = &fsck->rows->table;

    for (size_t i = 0; i < table->room; i++)
        if (table->slots[i].key != 0) find_dropped(fsck, &table->slots[i]);
}
