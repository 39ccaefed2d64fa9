#include "keyd/key_register_format.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

enum {
    LETTERS_SIZE = ECDSA_THUMBPRINT_SIZE - 1,
    NAME_SIZE = 32,
    PIN_SIZE = 8 + DOCUMENT_DIGEST_SIZE,
    ORGANISATION_SIZE = 6,
    ENTRY_SIZE = NAME_SIZE + DOCUMENT_DIGEST_SIZE + 9 + ORGANISATION_SIZE + 4,
    SECOND_ENTRY_SIZE = LETTERS_SIZE + DOCUMENT_DIGEST_SIZE + 9,
    HEAD_SIZE = KEY_REGISTER_KINDS * 2 * PIN_SIZE + 4,
    BODY_SIZE = HEAD_SIZE + KEY_REGISTER_MAX * ENTRY_SIZE,
    SEVENTH_BODY_SIZE = KEY_REGISTER_SEVENTH_KINDS * 2 * PIN_SIZE + 4 + KEY_REGISTER_MAX * ENTRY_SIZE,
    SIXTH_BODY_SIZE = KEY_REGISTER_SIXTH_KINDS * 2 * PIN_SIZE + 4 + KEY_REGISTER_MAX * ENTRY_SIZE,
    FIFTH_BODY_SIZE = KEY_REGISTER_FIFTH_KINDS * 2 * PIN_SIZE + 4 + KEY_REGISTER_MAX * ENTRY_SIZE,
    FOURTH_BODY_SIZE = KEY_REGISTER_FOURTH_KINDS * 2 * PIN_SIZE + 4 + KEY_REGISTER_MAX * ENTRY_SIZE,
    THIRD_HEAD_SIZE = KEY_REGISTER_THIRD_KINDS * 2 * PIN_SIZE + 4,
    THIRD_BODY_SIZE = THIRD_HEAD_SIZE + KEY_REGISTER_MAX * ENTRY_SIZE,
    SECOND_BODY_SIZE = THIRD_HEAD_SIZE + KEY_REGISTER_MAX * SECOND_ENTRY_SIZE,
    FIRST_BODY_SIZE = KEY_REGISTER_FIRST_KINDS * 2 * PIN_SIZE + 4 + KEY_REGISTER_MAX * SECOND_ENTRY_SIZE,
    VERSION_AT = DOCUMENT_DIGEST_SIZE - 8, /* in the place of an owner */
    IS_WITHDRAWN = 1,
    HAS_VERSION = 2,
    IS_REPLACED = 4,
    COPY_SIZE = 337 * 4096 /* as in all versions, so that the second copy stays where it is */
};
_Static_assert(JOURNAL_HEADER_SIZE + BODY_SIZE + JOURNAL_SEAL_SIZE <= COPY_SIZE, "a copy has room");
_Static_assert(JOURNAL_HEADER_SIZE + SECOND_BODY_SIZE + JOURNAL_SEAL_SIZE <= COPY_SIZE, "a copy of an earlier version has room");

const enum document_kind key_register_kinds[KEY_REGISTER_KINDS] = {
    DOCUMENT_SIGNING_KEY, DOCUMENT_RUNNER,      DOCUMENT_TRUST_RULE, DOCUMENT_AUDIT_SINK,   DOCUMENT_DETECTION_RULE,
    DOCUMENT_LEGAL_HOLD,  DOCUMENT_GROUP_ROLES, DOCUMENT_PERSONS,    DOCUMENT_SCIM_SERVICE, DOCUMENT_BREAK_GLASS,
    DOCUMENT_OWN_ROLE,    DOCUMENT_OFFICERS,    DOCUMENT_RESTRICTION};
static const struct {
    size_t body, kinds;
} versions[] = {{0, 0},
                {FIRST_BODY_SIZE, KEY_REGISTER_FIRST_KINDS},
                {SECOND_BODY_SIZE, KEY_REGISTER_THIRD_KINDS},
                {THIRD_BODY_SIZE, KEY_REGISTER_THIRD_KINDS},
                {FOURTH_BODY_SIZE, KEY_REGISTER_FOURTH_KINDS},
                {FIFTH_BODY_SIZE, KEY_REGISTER_FIFTH_KINDS},
                {SIXTH_BODY_SIZE, KEY_REGISTER_SIXTH_KINDS},
                {SEVENTH_BODY_SIZE, KEY_REGISTER_SEVENTH_KINDS},
                {BODY_SIZE, KEY_REGISTER_KINDS}};

static size_t body_size(uint8_t version)
{
    return version < sizeof versions / sizeof versions[0] ? versions[version].body : 0;
}

static uint8_t *put_pin(uint8_t *at, const struct document_pin *pin)
{
    store_u64(at, pin->epoch);
    memcpy(at + 8, pin->digest, sizeof pin->digest);
    return at + PIN_SIZE;
}

/* What has versions has its owner as its name, so the version has the owner's place: an entry is not longer than in version 3. */
static void put_owner(uint8_t at[DOCUMENT_DIGEST_SIZE], const uint8_t name[NAME_SIZE], const struct key_register_entry *entry)
{
    if (entry->version == 0) {
        memcpy(at, entry->owner, sizeof entry->owner);
        return;
    }
    assert(memcmp(name, entry->owner, NAME_SIZE) == 0);
    store_u64(at + VERSION_AT, entry->version);
}

/* Names are thumbprints, or were made of a digest, so they are base64 of 32 bytes. */
static uint8_t *put_entry(uint8_t *at, const struct key_register_entry *entry)
{
    uint8_t organisation[8];

    memset(at, 0, ENTRY_SIZE);
    if (entry->name[0] == '\0') return at + ENTRY_SIZE; /* a free place */
    const bool is_name = text_from_base64_exactly(BASE64_URL, bytes_of_text(entry->name), at, NAME_SIZE);
    assert(is_name);
    put_owner(at + NAME_SIZE, at, entry);
    at += NAME_SIZE + sizeof entry->owner;
    store_u64(at, entry->sequence);
    at[8] = (uint8_t)((entry->is_withdrawn ? IS_WITHDRAWN : 0) | (entry->version != 0 ? HAS_VERSION : 0) |
                      (entry->is_replaced ? IS_REPLACED : 0));
    store_u64(organisation, entry->organisation);
    memcpy(at + 9, organisation + sizeof organisation - ORGANISATION_SIZE, ORGANISATION_SIZE);
    store_u32(at + 9 + ORGANISATION_SIZE, entry->end_hours);
    return at + 9 + ORGANISATION_SIZE + 4;
}

static void write_body(const void *context, uint8_t *body_out)
{
    const struct key_register_state *state = context;
    uint8_t *at = body_out;

    for (size_t i = 0; i < KEY_REGISTER_KINDS; i++) at = put_pin(put_pin(at, &state->before[i]), &state->now[i]);
    store_u32(at, state->count);
    at += 4;
    for (size_t i = 0; i < KEY_REGISTER_MAX; i++) at = put_entry(at, &state->entries[i]);
    assert(at == body_out + BODY_SIZE);
}

static void get_pin(struct reader *reader, struct document_pin *pin)
{
    pin->epoch = reader_u64(reader);
    memcpy(pin->digest, reader_take(reader, sizeof pin->digest).data, sizeof pin->digest);
}

static void get_name(struct reader *reader, struct key_register_entry *entry)
{
    struct buffer OWNED_BUFFER text = BUFFER(ECDSA_THUMBPRINT_SIZE);
    struct error err = {0};

    const bool is_made = text_base64(&text, BASE64_URL, reader_take(reader, NAME_SIZE), &err).ok;
    assert(is_made); /* it allocates some bytes at the start, where nothing else can go on without memory */
    (void)snprintf(entry->name, sizeof entry->name, "%s", buffer_text(&text));
}

static void get_owner(struct bytes place, uint8_t flags, struct key_register_entry *entry)
{
    memcpy(entry->owner, place.data, sizeof entry->owner);
    if ((flags & HAS_VERSION) == 0) return;
    entry->version = load_u64(place.data + VERSION_AT);
    const bool is_name = text_from_base64_exactly(BASE64_URL, bytes_of_text(entry->name), entry->owner, sizeof entry->owner);
    assert(is_name);
}

static void get_entry(struct reader *reader, uint8_t version, struct key_register_entry *entry)
{
    if (version >= 3) {
        get_name(reader, entry);
    } else {
        memcpy(entry->name, reader_take(reader, LETTERS_SIZE).data, LETTERS_SIZE);
        entry->name[LETTERS_SIZE] = '\0';
    }
    const struct bytes owner = reader_take(reader, sizeof entry->owner);
    entry->sequence = reader_u64(reader);
    const uint8_t flags = reader_u8(reader);
    get_owner(owner, version >= 4 ? flags : 0, entry);
    entry->is_withdrawn = (flags & IS_WITHDRAWN) != 0;
    entry->is_replaced = (flags & IS_REPLACED) != 0;
    if (version < 3) return;
    for (size_t i = 0; i < ORGANISATION_SIZE; i++) entry->organisation = entry->organisation << 8 | reader_u8(reader);
    entry->end_hours = reader_u32(reader);
}

static void read_body(uint8_t version, struct bytes body, void *state_out)
{
    struct reader reader = reader_of(body);
    struct key_register_state *state = state_out;

    assert(body.length == body_size(version));
    memset(state, 0, sizeof *state);
    for (size_t i = 0; i < versions[version].kinds; i++) {
        get_pin(&reader, &state->before[i]);
        get_pin(&reader, &state->now[i]);
    }
    state->is_of_older = versions[version].kinds < KEY_REGISTER_KINDS;
    state->count = reader_u32(&reader);
    assert(state->count <= KEY_REGISTER_MAX); /* the seal is right, so this program never wrote more */
    for (size_t i = 0; i < state->count; i++) get_entry(&reader, version, &state->entries[i]);
}

const struct journal_format key_register_format = {.name = KEY_REGISTER_FILE,
                                                   .magic = "SJKR",
                                                   .version = 8,
                                                   .copy_size = COPY_SIZE,
                                                   .body_size = body_size,
                                                   .write = write_body,
                                                   .read = read_body};
