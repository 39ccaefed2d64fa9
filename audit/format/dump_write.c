#include "audit/format/dump.h"

#include <string.h>

#include "base/memory.h"

struct dump_writer {
    struct hasher *hasher; /* of all bytes so far */
    uint64_t count;
};

struct result dump_writer_new(struct dump_writer **writer_out, struct error *err)
{
    OWNED(dump_writer) *writer = memory_zeroed(1, sizeof *writer);

    if (writer == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a dump");
    TRY(hasher_new(DIGEST_SHA256, &writer->hasher, err));
    *writer_out = GIVE(writer);
    return SUCCESS;
}

void dump_writer_free(struct dump_writer *writer)
{
    if (writer == NULL) return;
    hasher_free(writer->hasher);
    free(writer);
}

struct result dump_writer_begin(struct dump_writer *writer, struct buffer *out, struct error *err)
{
    const struct bytes magic = bytes_of_text(DUMP_MAGIC);

    hasher_add(writer->hasher, magic);
    return buffer_add(out, magic.data, magic.length, err);
}

static struct result add_name(struct buffer *out, struct bytes name, struct error *err)
{
    if (name.length > DUMP_NAME_MAX)
        return failure(err, ERROR_LIMIT, "a name of %zu bytes does not fit into a dump", name.length);
    TRY(buffer_add_u8(out, (uint8_t)name.length, err));
    return buffer_add(out, name.data, name.length, err);
}

/* A stored hash or id that does not have its length is written as zeros: it matches nothing, and the check says so. */
static struct result add_fixed(struct buffer *out, struct bytes value, size_t length, struct error *err)
{
    static const uint8_t zeros[TILE_BYTES];

    return buffer_add(out, value.length == length ? value.data : zeros, length, err);
}

static struct result add_rest(struct buffer *out, struct bytes value, size_t most, struct error *err)
{
    return buffer_add(out, value.data, value.length < most ? value.length : most, err);
}

static struct result write_head(const struct dump_head *head, struct buffer *out, struct error *err)
{
    TRY(add_name(out, bytes_of_text(head->origin), err));
    TRY(buffer_add_u64(out, head->size, err));
    TRY(buffer_add_u64(out, (uint64_t)head->last_ms, err));
    TRY(buffer_add_prefixed(out, head->frontier, err));
    TRY(buffer_add_u64(out, head->indexed, err));
    TRY(buffer_add_u8(out, head->has_more, err));
    return buffer_add_u64(out, (uint64_t)head->made_ms, err);
}

static struct result write_entry(const struct dump_entry *entry, struct buffer *out, struct error *err)
{
    TRY(buffer_add_u64(out, entry->sequence, err));
    TRY(buffer_add_u64(out, (uint64_t)entry->time_ms, err));
    TRY(add_fixed(out, entry->hash, MERKLE_HASH_SIZE, err));
    TRY(add_name(out, entry->action, err));
    TRY(add_name(out, entry->outcome, err));
    return add_rest(out, entry->leaf, LEAF_MAX + 1, err);
}

static struct result write_tile(const struct dump_tile *tile, struct buffer *out, struct error *err)
{
    TRY(buffer_add_u8(out, (uint8_t)tile->level, err));
    TRY(buffer_add_u64(out, tile->index, err));
    TRY(add_fixed(out, tile->root, MERKLE_HASH_SIZE, err));
    return add_fixed(out, tile->hashes, TILE_BYTES, err);
}

static struct result write_payload(const struct dump_payload *payload, struct buffer *out, struct error *err)
{
    TRY(buffer_add_u64(out, payload->sequence, err));
    TRY(add_fixed(out, payload->subject, DUMP_SUBJECT_MAX, err));
    TRY(buffer_add_u8(out, payload->has_key, err));
    return buffer_add_u32(out, payload->length, err);
}

static struct result write_run(const struct dump_run *run, struct buffer *out, struct error *err)
{
    TRY(add_fixed(out, run->key, LEAF_KEY_ID_SIZE, err));
    TRY(buffer_add_u64(out, (uint64_t)run->last, err));
    TRY(buffer_add_u64(out, (uint64_t)run->ordinal, err));
    TRY(buffer_add_u32(out, run->cardinality, err));
    return add_rest(out, run->sequences, (size_t)8 * DUMP_RUN_MAX, err);
}

static struct result write_post(const struct dump_post *post, bool is_blind, struct buffer *out, struct error *err)
{
    TRY(buffer_add_u64(out, (uint64_t)post->key, err));
    TRY(buffer_add_u64(out, post->block, err));
    if (is_blind) TRY(add_fixed(out, post->subject, DUMP_SUBJECT_MAX, err));
    return add_rest(out, post->list, DUMP_BLOCK / 8 + 1, err);
}

static struct result write_binding(const struct dump_binding *binding, struct buffer *out, struct error *err)
{
    TRY(buffer_add(out, binding->id.bytes, sizeof binding->id.bytes, err));
    TRY(buffer_add_u8(out, binding->is_live, err));
    TRY(add_name(out, binding->role, err));
    TRY(add_name(out, binding->holder, err));
    return add_name(out, binding->scope, err);
}

static struct result write_body(const struct dump_record *record, struct buffer *out, struct error *err)
{
    switch (record->type) {
    case DUMP_HEAD: return write_head(&record->head, out, err);
    case DUMP_FACTS:
        TRY(add_fixed(out, record->facts.digest, LEAF_FACTS_DIGEST, err));
        return add_rest(out, record->facts.text, DUMP_FACTS_MAX + 1, err);
    case DUMP_ARCHIVE: return buffer_add_u64(out, record->archive.until, err);
    case DUMP_ENTRY: return write_entry(&record->entry, out, err);
    case DUMP_TILE: return write_tile(&record->tile, out, err);
    case DUMP_PAYLOAD: return write_payload(&record->payload, out, err);
    case DUMP_CHECKPOINT:
        TRY(buffer_add_u64(out, record->checkpoint.size, err));
        TRY(add_fixed(out, record->checkpoint.root, MERKLE_HASH_SIZE, err));
        return add_rest(out, record->checkpoint.note, DUMP_NOTE_MAX, err);
    case DUMP_RUN: return write_run(&record->run, out, err);
    case DUMP_POST: return write_post(&record->post, false, out, err);
    case DUMP_BLIND: return write_post(&record->post, true, out, err);
    case DUMP_TAG:
        TRY(add_name(out, record->tag.repository, err));
        TRY(add_name(out, record->tag.tag, err));
        return add_name(out, record->tag.digest, err);
    case DUMP_BINDING: return write_binding(&record->binding, out, err);
    case DUMP_PERSON:
        TRY(buffer_add(out, record->person.id.bytes, sizeof record->person.id.bytes, err));
        return buffer_add_u8(out, (uint8_t)record->person.state, err);
    case DUMP_IDENTITY:
    case DUMP_LINK:
        TRY(buffer_add(out, record->told.id.bytes, sizeof record->told.id.bytes, err));
        TRY(buffer_add_u8(out, record->told.names_event ? 1 : 0, err));
        return add_fixed(out, record->told.digest, SHA256_SIZE, err);
    case DUMP_GROUP:
        TRY(buffer_add(out, record->group.id.bytes, sizeof record->group.id.bytes, err));
        return add_fixed(out, record->group.members, SHA256_SIZE, err);
    case DUMP_END: TRY(buffer_add_u64(out, record->end.count, err)); return add_fixed(out, record->end.hash, SHA256_SIZE, err);
    }
    return SUCCESS;
}

static struct result write_record(const struct dump_record *record, struct buffer *out, struct error *err)
{
    const size_t before = out->length;

    TRY(buffer_add_u8(out, (uint8_t)record->type, err));
    TRY(buffer_add_u32(out, 0, err));
    TRY(write_body(record, out, err));
    store_u32(out->data + before + 1, (uint32_t)(out->length - before - 5));
    return SUCCESS;
}

struct result dump_writer_add(struct dump_writer *writer, const struct dump_record *record, struct buffer *out, struct error *err)
{
    const size_t before = out->length;

    TRY(write_record(record, out, err));
    hasher_add(writer->hasher, (struct bytes){out->data + before, out->length - before});
    writer->count++;
    return SUCCESS;
}

struct result dump_writer_end(struct dump_writer *writer, struct buffer *out, struct error *err)
{
    const struct digest digest = hasher_digest(writer->hasher);
    const struct dump_record record = {.type = DUMP_END, .end = {writer->count, {digest.bytes, SHA256_SIZE}}};

    return write_record(&record, out, err);
}
