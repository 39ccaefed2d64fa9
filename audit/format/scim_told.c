#include "audit/format/scim_told.h"

#include <string.h>

#include "audit/format/fsck_table_priv.h"

#define DIGITS 64 /* of a pseudonym */

static const char *const states[SCIM_STATE_COUNT] = {
    [SCIM_INACTIVE_NOW] = SCIM_STATE_INACTIVE, [SCIM_ACTIVE_NOW] = SCIM_STATE_ACTIVE, [SCIM_DELETED_NOW] = SCIM_STATE_DELETED};

/* Empty: there is no further word. */
static struct bytes take_word(const char **detail)
{
    const struct bytes word = {(const uint8_t *)*detail, strcspn(*detail, " ")};

    *detail += word.length;
    *detail += strspn(*detail, " ");
    return word;
}

static bool take_named(struct bytes word, const char *name, struct bytes *value_out)
{
    const size_t length = strlen(name);

    if (word.length <= length || memcmp(word.data, name, length) != 0) return false;
    *value_out = (struct bytes){word.data + length, word.length - length};
    return true;
}

static void take_state(struct bytes word, struct scim_told *told)
{
    for (size_t i = 0; i < SCIM_STATE_COUNT; i++)
        if (bytes_equal(word, bytes_of_text(states[i]))) told->state = (unsigned)i + 1;
}

/* "ID members=NOW was=BEFORE", or "ID deleted was=BEFORE". */
static void take_of_group(struct bytes word, struct scim_told *told)
{
    if (take_named(word, SCIM_MEMBERS_NOW, &told->members) || take_named(word, SCIM_MEMBERS_WAS, &told->was)) return;
    told->is_deleted = told->is_deleted || bytes_equal(word, bytes_of_text(SCIM_STATE_DELETED));
}

/* "ID STATE as=DIGEST link=DIGEST PSEUDONYM", or behind the scope of a token "person=ID as=DIGEST link=DIGEST PSEUDONYM". */
static void take_of_person(struct bytes word, struct scim_told *told)
{
    if (take_named(word, SCIM_PERSON, &told->id) || take_named(word, SCIM_IDENTITY, &told->identity) ||
        take_named(word, SCIM_LINK, &told->link))
        return;
    if (word.length == DIGITS && told->id.length > 0) told->pseudonym = word;
    take_state(word, told);
}

bool scim_told_read(const char *action, const char *detail, struct scim_told *told_out)
{
    static const char *const persons[] = {"scim.create", "scim.change", "scim.end"};
    struct scim_told told = {.is_group = strcmp(action, SCIM_TOLD_GROUP) == 0};
    bool begins_with_id = told.is_group;

    for (size_t i = 0; i < sizeof persons / sizeof persons[0]; i++)
        begins_with_id = begins_with_id || strcmp(action, persons[i]) == 0;
    if (detail == NULL || (!begins_with_id && strcmp(action, SCIM_TOLD_MINT) != 0)) return false;
    if (begins_with_id) told.id = take_word(&detail);
    for (struct bytes word = take_word(&detail); word.length > 0; word = take_word(&detail))
        if (told.is_group) take_of_group(word, &told);
        else take_of_person(word, &told);
    *told_out = told;
    return told.id.length > 0;
}

static uint64_t hash_of(const uint8_t secret[TABLE_KEY_SIZE], char kind, struct bytes text)
{
    return text.length == 0 ? 0 : fsck_table_hash(secret, kind, (const struct bytes[FSCK_NAME_PARTS]){text, {0}, {0}});
}

struct scim_left scim_told_left(const struct scim_told *told, const uint8_t secret[TABLE_KEY_SIZE])
{
    return (struct scim_left){hash_of(secret, 'X', told->was), hash_of(secret, 'X', told->members),
                              hash_of(secret, 'Y', told->identity), hash_of(secret, 'Q', told->pseudonym)};
}

static bool differ(uint64_t a, uint64_t b)
{
    return a != 0 && b != 0 && a != b;
}

const char *scim_left_fault(const struct scim_left *earlier, const struct scim_left *event)
{
    if (differ(earlier->members, event->was)) return "other members, or another externalId,";
    if (differ(earlier->identity, event->identity) || differ(earlier->person, event->person)) return "another externalId";
    return NULL;
}
