/*
 * Whether a person of SCIM may come in, and who is in a group, stands in rows that are not signed. The last event about the person or the group says it. A person
 * that was made again has another id.
 */
#include <inttypes.h>
#include <string.h>

#include "audit/format/fsck_priv.h"
#include "audit/format/fsck_table_priv.h"
#include "base/text.h"

#define PSEUDONYM    64 /* digits */
#define GROUP_ACTION "scim.group"

static const char *const states[SCIM_STATE_COUNT] = {
    [SCIM_INACTIVE_NOW] = SCIM_STATE_INACTIVE, [SCIM_ACTIVE_NOW] = SCIM_STATE_ACTIVE, [SCIM_DELETED_NOW] = SCIM_STATE_DELETED};

bool fsck_persons_need(const char *action, const char *outcome)
{
    static const char *const actions[] = {"scim.create", "scim.change", "scim.end", GROUP_ACTION};

    if (strcmp(outcome, "allowed") != 0) return false;
    for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++)
        if (strcmp(action, actions[i]) == 0) return true;
    return false;
}

static struct bytes take_word(const char **detail)
{
    const struct bytes word = {(const uint8_t *)*detail, strcspn(*detail, " ")};

    *detail += word.length;
    *detail += strspn(*detail, " ");
    return word;
}

/* A state and 1; 0: the event is of a version that did not tell it. */
static uint64_t state_of(struct bytes word)
{
    for (size_t i = 0; i < SCIM_STATE_COUNT; i++)
        if (bytes_equal(word, bytes_of_text(states[i]))) return i + 1;
    return 0;
}

/* "ID STATE PSEUDONYM". The slot of the pseudonym has the newest id: only that one must have a row. */
static struct result take(struct fsck_rows *rows, const struct leaf *leaf, const char *detail, struct error *err)
{
    const struct bytes id = take_word(&detail);
    struct bytes word = take_word(&detail);
    const uint64_t state = state_of(word), key = fsck_rows_hash(rows, 'I', id);
    struct fsck_slot *slot = NULL;

    if (state > 0) word = take_word(&detail);
    if (id.length == 0) return SUCCESS;
    TRY(fsck_table_get(&rows->table, key, &slot, err));
    slot->flags = IS_PROVISIONED;
    slot->sequence = leaf->sequence + 1;
    slot->value = state;
    if (word.length != PSEUDONYM) return SUCCESS;
    const uint64_t person = fsck_rows_hash(rows, 'Q', word);
    slot->holder = person;
    slot->scopes[0] = fsck_rows_hash(rows, 'E', word);
    TRY(fsck_table_get(&rows->table, person, &slot, err));
    slot->value = key;
    return SUCCESS;
}

/* A hash of the digest behind `name`; 0: the word is another one, or there is none. */
static uint64_t members_of(const struct fsck_rows *rows, struct bytes word, const char *name)
{
    const size_t length = strlen(name);

    if (word.length <= length || memcmp(word.data, name, length) != 0) return 0;
    return fsck_rows_hash(rows, 'X', (struct bytes){word.data + length, word.length - length});
}

/* "ID members=NOW was=BEFORE", or "ID deleted was=BEFORE". The members before it must be those that the last event left: somebody may have changed rows in between. */
static struct result take_group(struct fsck *fsck, const struct leaf *leaf, const char *detail, struct error *err)
{
    struct fsck_rows *rows = fsck->rows;
    const struct bytes id = take_word(&detail), now = take_word(&detail);
    const uint64_t before = members_of(rows, take_word(&detail), SCIM_MEMBERS_WAS);
    struct fsck_slot *slot = NULL;

    if (id.length == 0) return SUCCESS;
    TRY(fsck_table_get(&rows->table, fsck_rows_hash(rows, 'P', id), &slot, err));
    if (before != 0 && slot->value != 0 && before != slot->value)
        fsck_find(fsck, FSCK_GROUP, leaf->sequence,
                  "before it the group %.*s had other members, or another externalId, than entry %" PRIu64 " left",
                  (int)(UUID_TEXT_SIZE - 1), (const char *)id.data, slot->sequence - 1);
    slot->flags = bytes_equal(now, bytes_of_text(SCIM_STATE_DELETED)) ? IS_GROUP | IS_GONE : IS_GROUP;
    slot->sequence = leaf->sequence + 1;
    slot->value = members_of(rows, now, SCIM_MEMBERS_NOW);
    return SUCCESS;
}

struct result fsck_persons_event(struct fsck *fsck, const struct leaf *leaf, struct error *err)
{
    for (size_t i = 0; i < leaf->target_count; i++) {
        const char *detail = strchr(leaf->targets[i].resource, '#');
        if (detail == NULL || !fsck_persons_need(leaf->targets[i].action, leaf->outcome)) continue;
        if (strcmp(leaf->targets[i].action, GROUP_ACTION) == 0) TRY(take_group(fsck, leaf, detail + 1, err));
        else TRY(take(fsck->rows, leaf, detail + 1, err));
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

void fsck_persons_judge(struct fsck *fsck, const struct fsck_slot *slot)
{
    if ((slot->flags & IS_PROVISIONED) != 0) judge_person(fsck, slot);
    judge_group(fsck, slot);
}
