#include "audit/format/dump.h"

#include <assert.h>
#include <string.h>

#include "base/memory.h"

#define HEADER_SIZE 5 /* of a record: type, u32 length */

static const struct type_row {
    enum dump_type type;
    const char *name;
} types[] = {
#define X(name, letter, about) {DUMP_##name, about},
    DUMP_TYPES(X)
#undef X
};
#define TYPE_COUNT (sizeof types / sizeof types[0])

static size_t place_of(uint8_t type)
{
    size_t i = 0;

    while (i < TYPE_COUNT && (uint8_t)types[i].type != type) i++;
    return i;
}

const char *dump_type_name(enum dump_type type)
{
    const size_t place = place_of((uint8_t)type);

    assert(place < TYPE_COUNT);
    return types[place].name;
}

static struct bytes read_name(struct reader *fields)
{
    return reader_take(fields, reader_u8(fields));
}

static struct bytes read_rest(struct reader *fields, size_t most)
{
    if (fields->left.length > most) fields->failed = true;
    return reader_take(fields, fields->left.length);
}

static bool read_bool(struct reader *fields)
{
    const uint8_t value = reader_u8(fields);

    if (value > 1) fields->failed = true;
    return value == 1;
}

static void read_head(struct reader *fields, struct dump_head *head)
{
    const struct bytes origin = read_name(fields);

    if (origin.length >= sizeof head->origin || memchr(origin.data == NULL ? (const uint8_t *)"" : origin.data, 0, origin.length))
        fields->failed = true;
    else if (origin.length > 0) memcpy(head->origin, origin.data, origin.length);
    head->size = reader_u64(fields);
    head->last_ms = (int64_t)reader_u64(fields);
    head->frontier = reader_prefixed(fields, (size_t)64 * MERKLE_HASH_SIZE);
    head->indexed = reader_u64(fields);
    head->has_more = read_bool(fields);
    head->made_ms = (int64_t)reader_u64(fields);
    if (head->size > MERKLE_SIZE_MAX) fields->failed = true;
}

static void read_entry(struct reader *fields, struct dump_entry *entry)
{
    entry->sequence = reader_u64(fields);
    entry->time_ms = (int64_t)reader_u64(fields);
    entry->hash = reader_take(fields, MERKLE_HASH_SIZE);
    entry->action = read_name(fields);
    entry->outcome = read_name(fields);
    entry->leaf = read_rest(fields, LEAF_MAX + 1);
}

static void read_tile(struct reader *fields, struct dump_tile *tile)
{
    tile->level = reader_u8(fields);
    tile->index = reader_u64(fields);
    tile->root = reader_take(fields, MERKLE_HASH_SIZE);
    tile->hashes = reader_take(fields, TILE_BYTES);
}

static void read_payload(struct reader *fields, struct dump_payload *payload)
{
    payload->sequence = reader_u64(fields);
    payload->subject = reader_take(fields, DUMP_SUBJECT_MAX);
    payload->has_key = read_bool(fields);
    payload->length = reader_u32(fields);
}

static void read_checkpoint(struct reader *fields, struct dump_checkpoint *checkpoint)
{
    checkpoint->size = reader_u64(fields);
    checkpoint->root = reader_take(fields, MERKLE_HASH_SIZE);
    checkpoint->note = read_rest(fields, DUMP_NOTE_MAX);
}

static void read_run(struct reader *fields, struct dump_run *run)
{
    run->key = reader_take(fields, LEAF_KEY_ID_SIZE);
    run->last = (int64_t)reader_u64(fields);
    run->ordinal = (int64_t)reader_u64(fields);
    run->cardinality = reader_u32(fields);
    run->sequences = read_rest(fields, (size_t)8 * DUMP_RUN_MAX);
    if (run->sequences.length % 8 != 0) fields->failed = true;
}

static void read_post(struct reader *fields, bool is_blind, struct dump_post *post)
{
    post->key = (int64_t)reader_u64(fields);
    post->block = reader_u64(fields);
    post->subject = is_blind ? reader_take(fields, DUMP_SUBJECT_MAX) : (struct bytes){0};
    post->list = read_rest(fields, DUMP_BLOCK / 8 + 1);
}

static void read_binding(struct reader *fields, struct dump_binding *binding)
{
    const struct bytes id = reader_take(fields, sizeof binding->id.bytes);

    if (id.length == sizeof binding->id.bytes) memcpy(binding->id.bytes, id.data, id.length);
    binding->is_live = read_bool(fields);
    binding->role = read_name(fields);
    binding->holder = read_name(fields);
    binding->scope = read_name(fields);
}

static void read_person(struct reader *fields, struct dump_person *person)
{
    const struct bytes id = reader_take(fields, sizeof person->id.bytes);

    if (id.length == sizeof person->id.bytes) memcpy(person->id.bytes, id.data, id.length);
    const uint8_t state = reader_u8(fields);
    if (state >= SCIM_STATE_COUNT) fields->failed = true;
    person->state = (enum scim_state)state;
}

static void read_group(struct reader *fields, struct dump_group *group)
{
    const struct bytes id = reader_take(fields, sizeof group->id.bytes);

    if (id.length == sizeof group->id.bytes) memcpy(group->id.bytes, id.data, id.length);
    group->members = reader_take(fields, SHA256_SIZE);
}

static void read_told(struct reader *fields, struct dump_told *told)
{
    const struct bytes id = reader_take(fields, sizeof told->id.bytes);

    if (id.length == sizeof told->id.bytes) memcpy(told->id.bytes, id.data, id.length);
    told->names_event = read_bool(fields);
    told->digest = reader_take(fields, SHA256_SIZE);
}

static void read_body(struct reader *fields, struct dump_record *record)
{
    switch (record->type) {
    case DUMP_HEAD: read_head(fields, &record->head); return;
    case DUMP_FACTS:
        record->facts.digest = reader_take(fields, LEAF_FACTS_DIGEST);
        record->facts.text = read_rest(fields, DUMP_FACTS_MAX + 1);
        return;
    case DUMP_ARCHIVE: record->archive.until = reader_u64(fields); return;
    case DUMP_ENTRY: read_entry(fields, &record->entry); return;
    case DUMP_TILE: read_tile(fields, &record->tile); return;
    case DUMP_PAYLOAD: read_payload(fields, &record->payload); return;
    case DUMP_CHECKPOINT: read_checkpoint(fields, &record->checkpoint); return;
    case DUMP_RUN: read_run(fields, &record->run); return;
    case DUMP_POST: read_post(fields, false, &record->post); return;
    case DUMP_BLIND: read_post(fields, true, &record->post); return;
    case DUMP_TAG:
        record->tag = (struct dump_tag){.repository = read_name(fields)};
        record->tag.tag = read_name(fields);
        record->tag.digest = read_name(fields);
        return;
    case DUMP_BINDING: read_binding(fields, &record->binding); return;
    case DUMP_PERSON: read_person(fields, &record->person); return;
    case DUMP_IDENTITY:
    case DUMP_LINK: read_told(fields, &record->told); return;
    case DUMP_GROUP: read_group(fields, &record->group); return;
    case DUMP_END:
        record->end.count = reader_u64(fields);
        record->end.hash = reader_take(fields, SHA256_SIZE);
        return;
    }
}

struct result dump_record_read(uint8_t type, struct bytes body, struct dump_record *record_out, struct error *err)
{
    struct dump_record record = {.type = (enum dump_type)type};
    struct reader fields = reader_of(body);

    if (place_of(type) == TYPE_COUNT) return failure(err, ERROR_INVALID, "there is no record of type %u", type);
    read_body(&fields, &record);
    if (!reader_is_done(&fields))
        return failure(err, ERROR_INVALID, "the body is not that of a record \"%s\"", dump_type_name(record.type));
    *record_out = record;
    return SUCCESS;
}

struct dump_reader {
    struct buffer held; /* the beginning of a record, or of the stream, that is not whole yet */
    struct hasher *hasher;
    uint64_t count, offset; /* records and bytes that were taken */
    size_t place;           /* in the order of types, of the last record */
    bool has_begun, has_ended;
};

struct result dump_reader_new(struct dump_reader **reader_out, struct error *err)
{
    OWNED(dump_reader) *reader = memory_zeroed(1, sizeof *reader);

    if (reader == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for reading a dump");
    reader->held = BUFFER(HEADER_SIZE + DUMP_BODY_MAX);
    TRY(hasher_new(DIGEST_SHA256, &reader->hasher, err));
    *reader_out = GIVE(reader);
    return SUCCESS;
}

void dump_reader_free(struct dump_reader *reader)
{
    if (reader == NULL) return;
    buffer_done(&reader->held);
    hasher_free(reader->hasher);
    free(reader);
}

static struct result wrong(const struct dump_reader *reader, struct error *err, const char *what)
{
    return failure(err, ERROR_INVALID, "record %llu, at byte %llu of the dump: %s", (unsigned long long)reader->count,
                   (unsigned long long)reader->offset, what);
}

/* From ENTRY to CHECKPOINT the records of a block repeat; all other types come in one order. */
static bool may_follow(size_t before, size_t place)
{
    const size_t first = place_of(DUMP_ENTRY), last = place_of(DUMP_CHECKPOINT);

    if (place >= before) return true;
    return before <= last && place >= first;
}

static struct result check_order(struct dump_reader *reader, uint8_t type, struct error *err)
{
    const size_t place = place_of(type);

    if (place == TYPE_COUNT) return wrong(reader, err, "there is no such type of record");
    if ((reader->count == 0) != (type == DUMP_HEAD)) return wrong(reader, err, "the state of the log comes first, and once");
    if (!may_follow(reader->place, place)) return wrong(reader, err, "a record of this type can't come so late");
    reader->place = place;
    return SUCCESS;
}

static struct result check_end(struct dump_reader *reader, const struct dump_end *end, struct error *err)
{
    const struct digest digest = hasher_digest(reader->hasher);

    if (end->count != reader->count || !bytes_equal(end->hash, (struct bytes){digest.bytes, SHA256_SIZE}))
        return wrong(reader, err, "the dump was damaged or cut: its last record counts or hashes other bytes");
    reader->has_ended = true;
    return SUCCESS;
}

/* One whole record. */
static struct result take_record(struct dump_reader *reader, struct bytes whole, dump_taker take, void *context,
                                 struct error *err)
{
    const struct bytes body = {whole.data + HEADER_SIZE, whole.length - HEADER_SIZE};
    struct dump_record record;
    struct error why = {0};

    if (reader->has_ended) return wrong(reader, err, "there is something behind the last record");
    TRY(check_order(reader, whole.data[0], err));
    if (!dump_record_read(whole.data[0], body, &record, &why).ok) return wrong(reader, err, why.message);
    if (record.type == DUMP_END) TRY(check_end(reader, &record.end, err));
    else hasher_add(reader->hasher, whole);
    TRY(take(context, &record, err));
    reader->count++;
    reader->offset += whole.length;
    return SUCCESS;
}

/* The length of what comes next, as far as its first bytes tell; 0: more bytes are needed to say. */
static struct result next_length(const struct dump_reader *reader, struct bytes bytes, size_t *length_out, struct error *err)
{
    *length_out = 0;
    if (!reader->has_begun) {
        *length_out = sizeof DUMP_MAGIC - 1;
        return SUCCESS;
    }
    if (bytes.length < HEADER_SIZE) return SUCCESS;
    const size_t length = load_u32(bytes.data + 1);
    if (length > DUMP_BODY_MAX) return wrong(reader, err, "a record is longer than any");
    *length_out = HEADER_SIZE + length;
    return SUCCESS;
}

static struct result take_whole(struct dump_reader *reader, struct bytes whole, dump_taker take, void *context, struct error *err)
{
    if (reader->has_begun) return take_record(reader, whole, take, context, err);
    if (!bytes_equal(whole, bytes_of_text(DUMP_MAGIC)))
        return failure(err, ERROR_INVALID, "this is no dump of an audit log: it does not begin with \"sijil-audit-dump/v1\"");
    reader->has_begun = true;
    reader->offset = whole.length;
    hasher_add(reader->hasher, whole);
    return SUCCESS;
}

/* Completes what is held. Bytes that were used are taken off `piece`. */
static struct result complete_held(struct dump_reader *reader, struct bytes *piece, dump_taker take, void *context,
                                   struct error *err)
{
    size_t wanted = HEADER_SIZE;

    TRY(next_length(reader, buffer_bytes(&reader->held), &wanted, err));
    if (wanted == 0) wanted = HEADER_SIZE;
    const size_t lacking = wanted - reader->held.length, used = lacking < piece->length ? lacking : piece->length;
    TRY(buffer_add(&reader->held, piece->data, used, err));
    *piece = (struct bytes){piece->data + used, piece->length - used};
    if (reader->held.length < wanted) return SUCCESS;
    TRY(next_length(reader, buffer_bytes(&reader->held), &wanted, err));
    if (reader->held.length < wanted) return SUCCESS;
    TRY(take_whole(reader, buffer_bytes(&reader->held), take, context, err));
    buffer_clear(&reader->held);
    return SUCCESS;
}

struct result dump_reader_feed(struct dump_reader *reader, struct bytes piece, dump_taker take, void *context, struct error *err)
{
    while (piece.length > 0) {
        size_t length = 0;
        if (reader->held.length > 0) {
            TRY(complete_held(reader, &piece, take, context, err));
            continue;
        }
        TRY(next_length(reader, piece, &length, err));
        if (length == 0 || length > piece.length) return buffer_add(&reader->held, piece.data, piece.length, err);
        TRY(take_whole(reader, (struct bytes){piece.data, length}, take, context, err));
        piece = (struct bytes){piece.data + length, piece.length - length};
    }
    return SUCCESS;
}

struct result dump_reader_end(const struct dump_reader *reader, struct error *err)
{
    if (reader->has_ended && reader->held.length > 0) return wrong(reader, err, "there is something behind the last record");
    if (reader->has_ended) return SUCCESS;
    return failure(err, ERROR_INVALID, "the dump was cut: it ends at byte %llu, without its last record",
                   (unsigned long long)(reader->offset + reader->held.length));
}
