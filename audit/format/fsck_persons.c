/*
 * Whether a person of SCIM may come in, who it is, and who is in a group, stands in rows that are not signed. The last event about the person or the group says it. A
 * person that was made again has another id.
 */
#include <inttypes.h>
#include <string.h>

#include "audit/format/fsck_priv.h"
#include "audit/format/fsck_table_priv.h"
#include "audit/format/scim_told.h"
#include "base/text.h"

static const char *const states[SCIM_STATE_COUNT] = {
    [SCIM_INACTIVE_NOW] = SCIM_STATE_INACTIVE, [SCIM_ACTIVE_NOW] = SCIM_STATE_ACTIVE, [SCIM_DELETED_NOW] = SCIM_STATE_DELETED};

bool fsck_persons_need(const char *action, const char *outcome)
{
    static const char *const actions[] = {"scim.create", "scim.change", "scim.end", SCIM_TOLD_GROUP};

    if (strcmp(outcome, "allowed") != 0) return false;
    for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++)
        if (strcmp(action, actions[i]) == 0) return true;
    return false;
}

bool fsck_persons_tell(const struct leaf_target *target, const char *outcome)
{
    return strcmp(target->action, SCIM_TOLD_MINT) == 0 && strcmp(outcome, "allowed") == 0 &&
           strstr(target->resource, " " SCIM_PERSON) != NULL;
}

/* What an event tells, and of which slot. */
struct telling {
    const struct leaf *leaf;
    bool is_first; /* the person is made by it */
    struct scim_told told;
    struct scim_left left;
};

static void find_fault(struct fsck *fsck, const struct telling *telling, const struct scim_left *earlier, uint64_t number)
{
    const char *fault = scim_left_fault(earlier, &telling->left);

    if (fault == NULL) return;
    fsck_find(fsck, telling->told.is_group ? FSCK_GROUP : FSCK_PROVISIONED, telling->leaf->sequence,
              "before it the %s %.*s had %s than entry %" PRIu64 " left", telling->told.is_group ? "group" : "person",
              (int)(UUID_TEXT_SIZE - 1), (const char *)telling->told.id.data, fault, number);
}

/* Somebody may have changed rows between two events. */
static struct result take_group(struct fsck *fsck, const struct telling *telling, struct error *err)
{
    struct fsck_rows *rows = fsck->rows;
    struct fsck_slot *slot = NULL;

    TRY(fsck_table_get(&rows->table, fsck_rows_hash(rows, 'P', telling->told.id), &slot, err));
    find_fault(fsck, telling, &(const struct scim_left){.members = slot->value}, slot->sequence - 1);
    slot->flags = telling->told.is_deleted ? IS_GROUP | IS_GONE : IS_GROUP;
    slot->sequence = telling->leaf->sequence + 1;
    slot->value = telling->left.members;
    return SUCCESS;
}

/* The slot of the pseudonym has the newest id: only that one must have a row. */
static struct result take_person(struct fsck *fsck, const struct telling *telling, struct error *err)
{
    struct fsck_rows *rows = fsck->rows;
    const uint64_t key = fsck_rows_hash(rows, 'I', telling->told.id);
    struct fsck_slot *slot = NULL;

    TRY(fsck_table_get(&rows->table, key, &slot, err));
    find_fault(fsck, telling, &(const struct scim_left){.identity = slot->scopes[1], .person = slot->holder}, slot->sequence - 1);
    slot->flags |= telling->is_first && telling->left.identity != 0 ? IS_PROVISIONED | IS_TOLD : IS_PROVISIONED;
    slot->sequence = telling->leaf->sequence + 1;
    slot->value = telling->told.state;
    if (telling->left.identity != 0) slot->scopes[1] = telling->left.identity;
    if (telling->left.person == 0) return SUCCESS;
    slot->holder = telling->left.person;
    slot->scopes[0] = fsck_rows_hash(rows, 'E', telling->told.pseudonym);
    TRY(fsck_table_get(&rows->table, telling->left.person, &slot, err));
    slot->value = key;
    return SUCCESS;
}

/* A token tells who the person is, too: rows of an earlier version get no other event. */
static void take_identity(struct fsck *fsck, const struct telling *telling)
{
    struct fsck_slot *slot = fsck_table_find(&fsck->rows->table, fsck_rows_hash(fsck->rows, 'I', telling->told.id));

    if (slot == NULL) return;
    find_fault(fsck, telling, &(const struct scim_left){.identity = slot->scopes[1], .person = slot->holder}, slot->sequence - 1);
    if (slot->scopes[1] == 0) slot->scopes[1] = telling->left.identity;
}

static struct result take_link(struct fsck *fsck, const struct telling *telling, struct error *err)
{
    struct fsck_rows *rows = fsck->rows;
    struct fsck_slot *slot = NULL;

    if (telling->told.link.length == 0) return SUCCESS;
    TRY(fsck_table_get(&rows->table, fsck_rows_hash(rows, 'L', telling->told.link), &slot, err));
    slot->flags = IS_LINK;
    slot->sequence = telling->leaf->sequence + 1;
    slot->holder = fsck_rows_hash(rows, 'I', telling->told.id);
    slot->scopes[0] = fsck_rows_hash(rows, 'E', bytes_of_text(telling->leaf->actor));
    return SUCCESS;
}

static struct result take(struct fsck *fsck, const struct telling *telling, bool is_mint, struct error *err)
{
    if (telling->told.is_group) return take_group(fsck, telling, err);
    if (is_mint) take_identity(fsck, telling);
    else TRY(take_person(fsck, telling, err));
    return take_link(fsck, telling, err);
}

struct result fsck_persons_event(struct fsck *fsck, const struct leaf *leaf, struct error *err)
{
    struct telling telling = {.leaf = leaf};

    for (size_t i = 0; i < leaf->target_count; i++) {
        const struct leaf_target *target = &leaf->targets[i];
        const char *detail = strchr(target->resource, '#');
        if (!fsck_persons_need(target->action, leaf->outcome) && !fsck_persons_tell(target, leaf->outcome)) continue;
        if (!scim_told_read(target->action, detail == NULL ? NULL : detail + 1, &telling.told)) continue;
        telling.left = scim_told_left(&telling.told, fsck->rows->secret);
        telling.is_first = strcmp(target->action, "scim.create") == 0;
        TRY(take(fsck, &telling, strcmp(target->action, SCIM_TOLD_MINT) == 0, err));
    }
    return SUCCESS;
}

void fsck_persons_row(struct fsck *fsck, const struct dump_person *person)
{
    char id[UUID_TEXT_SIZE];

    if (!fsck_is_in_last_pass(fsck)) return;
    fsck->report.persons++;
    uuid_format(&person->id, id);
    struct fsck_slot *slot = fsck_table_find(&fsck->rows->table, fsck_rows_hash(fsck->rows, 'I', bytes_of_text(id)));
    if (slot == NULL) {
        fsck_find(fsck, FSCK_PROVISIONED, fsck->head.size, "the person %s is stored, and no event has made it", id);
        return;
    }
    slot->flags |= IS_SEEN;
    if (slot->value != 0 && slot->value != (uint64_t)person->state + 1)
        fsck_find(fsck, FSCK_PROVISIONED, slot->sequence - 1, "it left the person %s %s, and the row says %s", id,
                  states[slot->value - 1], states[person->state]);
}

/* The slot of the person, by SCIM's id. NULL: fsck_persons_row() has said that nobody made it. */
static struct fsck_slot *slot_of(const struct fsck *fsck, const struct dump_told *told, char id_out[UUID_TEXT_SIZE])
{
    uuid_format(&told->id, id_out);
    return fsck_table_find(&fsck->rows->table, fsck_rows_hash(fsck->rows, 'I', bytes_of_text(id_out)));
}

static uint64_t hash_of_digest(const struct fsck *fsck, char kind, struct bytes digest)
{
    char text[2 * SHA256_SIZE + 1];

    text_hex(digest.data, digest.length, text);
    return fsck_rows_hash(fsck->rows, kind, bytes_of_text(text));
}

/* Rows of an earlier version stand in no event until the person comes again. They give no role, and are counted. */
static void judge_untold(struct fsck *fsck, const struct dump_told *told, const struct fsck_slot *person, const char *what)
{
    char id[UUID_TEXT_SIZE];

    uuid_format(&told->id, id);
    if (told->names_event || (person != NULL && (person->flags & IS_TOLD) != 0))
        fsck_find(fsck, FSCK_PROVISIONED, fsck->head.size, "%s of the person %s is stored, and no event tells it", what, id);
    else fsck->report.untold++;
}

void fsck_identity_row(struct fsck *fsck, const struct dump_told *told)
{
    char id[UUID_TEXT_SIZE];

    if (!fsck_is_in_last_pass(fsck)) return;
    const struct fsck_slot *slot = slot_of(fsck, told, id);
    if (slot == NULL) return;
    if (slot->scopes[1] == 0) judge_untold(fsck, told, NULL, "the externalId");
    else if (slot->scopes[1] != hash_of_digest(fsck, 'Y', told->digest))
        fsck_find(fsck, FSCK_PROVISIONED, slot->sequence - 1, "it left the person %s with another externalId than is stored", id);
}

void fsck_link_row(struct fsck *fsck, const struct dump_told *told)
{
    char id[UUID_TEXT_SIZE];

    if (!fsck_is_in_last_pass(fsck)) return;
    fsck->report.links++;
    struct fsck_slot *slot = fsck_table_find(&fsck->rows->table, hash_of_digest(fsck, 'L', told->digest));
    if (slot != NULL) slot->flags |= IS_SEEN;
    else judge_untold(fsck, told, slot_of(fsck, told, id), "a subject of tokens");
}

void fsck_groups_row(struct fsck *fsck, const struct dump_group *group)
{
    char id[UUID_TEXT_SIZE], members[2 * SHA256_SIZE + 1];

    if (!fsck_is_in_last_pass(fsck)) return;
    fsck->report.groups++;
    uuid_format(&group->id, id);
    text_hex(group->members.data, group->members.length, members);
    struct fsck_slot *slot = fsck_table_find(&fsck->rows->table, fsck_rows_hash(fsck->rows, 'P', bytes_of_text(id)));
    if (slot == NULL) {
        fsck_find(fsck, FSCK_GROUP, fsck->head.size, "the group %s is stored, and no event has made it", id);
        return;
    }
    slot->flags |= IS_SEEN;
    if ((slot->flags & IS_GONE) != 0)
        fsck_find(fsck, FSCK_GROUP, slot->sequence - 1, "it deleted the group %s, which is stored", id);
    else if (slot->value != 0 && slot->value != fsck_rows_hash(fsck->rows, 'X', bytes_of_text(members)))
        fsck_find(fsck, FSCK_GROUP, slot->sequence - 1,
                  "it left other members in the group %s, or another externalId, than are stored", id);
}

/* An earlier version deleted a group with an event that does not say so, and has no digest. */
static void judge_group(struct fsck *fsck, const struct fsck_slot *slot)
{
    if ((slot->flags & (IS_GROUP | IS_SEEN | IS_GONE)) == IS_GROUP && slot->value != 0)
        fsck_find(fsck, FSCK_GROUP, slot->sequence - 1, "the group that it is about is not stored, and no event has deleted it");
}

static void judge_person(struct fsck *fsck, const struct fsck_slot *slot)
{
    const struct fsck_table *table = &fsck->rows->table;
    const struct fsck_slot *person = slot->holder == 0 ? NULL : fsck_table_find(table, slot->holder);
    const struct fsck_slot *erased = slot->holder == 0 ? NULL : fsck_table_find(table, slot->scopes[0]);

    if ((slot->flags & IS_SEEN) != 0 || person == NULL || person->value != slot->key) return;
    if (erased != NULL && erased->sequence > slot->sequence) return;
    fsck_find(fsck, FSCK_PROVISIONED, slot->sequence - 1,
              "the person that it is about is not stored, and no event has erased it");
}

/* Rows go with the person alone. */
static void judge_link(struct fsck *fsck, const struct fsck_slot *slot)
{
    const struct fsck_table *table = &fsck->rows->table;
    const struct fsck_slot *person = fsck_table_find(table, slot->holder), *actor = fsck_table_find(table, slot->scopes[0]);
    const struct fsck_slot *erased = person == NULL || person->holder == 0 ? NULL : fsck_table_find(table, person->scopes[0]);

    if ((slot->flags & IS_SEEN) != 0 || (erased != NULL && erased->sequence > slot->sequence) ||
        (actor != NULL && actor->sequence > slot->sequence))
        return;
    fsck_find(fsck, FSCK_PROVISIONED, slot->sequence - 1, "the subject of tokens that it joins with a person is not stored so");
}

void fsck_persons_judge(struct fsck *fsck, const struct fsck_slot *slot)
{
    if ((slot->flags & IS_PROVISIONED) != 0) judge_person(fsck, slot);
    if ((slot->flags & IS_LINK) != 0) judge_link(fsck, slot);
    judge_group(fsck, slot);
}
