/*
 * audit/format/dump.h -- the log of one moment as a stream of records (docs/formats/audit-dump.md).
 *
 * Made from one snapshot of the database, read without one. A record has its type, its length and its body; the last record has the hash of
 * all bytes before it. Records have no names of persons and no sealed text: they say only whether a sealed part is stored.
 */
#pragma once

#include "audit/format/checkpoint.h"
#include "audit/format/leaf.h"
#include "audit/format/scim_state.h"
#include "audit/format/tile.h"
#include "base/uuid.h"
#include "crypto/digest.h"

#define DUMP_MAGIC       "sijil-audit-dump/v1\n"
#define DUMP_BLOCK       4096              /* entries; a whole number of tiles, and a block of the index of searches */
#define DUMP_BODY_MAX    ((size_t)1 << 20) /* of one record: a run of 65,536 numbers has half of it */
#define DUMP_RUN_MAX     65536             /* numbers of a run */
#define DUMP_NAME_MAX    255               /* bytes of a name of a repository, a tag, a role or a holder */
#define DUMP_SUBJECT_MAX 32
#define DUMP_NOTE_MAX    2048 /* bytes of a stored checkpoint (migrations/0019_checkpoint_rows.sql) */
#define DUMP_FACTS_MAX   32768

/* The types, in the order of the stream. Those from ENTRY to CHECKPOINT repeat for each block. */
#define DUMP_TYPES(X)                              \
    X(HEAD, 'H', "state of the log")               \
    X(FACTS, 'F', "facts")                         \
    X(ARCHIVE, 'A', "archived entries")            \
    X(ENTRY, 'E', "entry")                         \
    X(TILE, 'T', "tile")                           \
    X(PAYLOAD, 'P', "sealed part")                 \
    X(CHECKPOINT, 'C', "stored checkpoint")        \
    X(RUN, 'R', "row of the index by key")         \
    X(POST, 'S', "row of the index of searches")   \
    X(BLIND, 'B', "row of the index of addresses") \
    X(TAG, 'G', "tag")                             \
    X(BINDING, 'D', "binding")                     \
    X(PERSON, 'U', "person of SCIM")               \
    X(IDENTITY, 'I', "externalId of a person")     \
    X(LINK, 'L', "subject of a person's tokens")   \
    X(GROUP, 'M', "group of SCIM")                 \
    X(END, 'Z', "end")

enum dump_type {
#define X(name, letter, about) DUMP_##name = letter,
    DUMP_TYPES(X)
#undef X
};

/** One record: the members of its type. Views live as long as the bytes that were read. */
struct dump_record {
    enum dump_type type;
    union {
        struct dump_head {
            char origin[CHECKPOINT_ORIGIN_MAX + 1];
            uint64_t size;
            int64_t last_ms;       /* time of the last entry, as the state has it */
            struct bytes frontier; /* as stored: section 2 of docs/formats/audit-log.md */
            uint64_t indexed;      /* entries that the index of searches has */
            bool has_more;         /* rows are stored beyond the end of the log */
            int64_t made_ms;       /* by the database's clock */
        } head;
        struct dump_facts {
            struct bytes digest, text;
        } facts;
        struct dump_archive {
            uint64_t until; /* all entries before this number are archived: the database may have released their bytes */
        } archive;
        struct dump_entry {
            uint64_t sequence;
            int64_t time_ms;
            struct bytes hash, action, outcome, leaf; /* the leaf is empty if the bytes were released */
        } entry;
        struct dump_tile {
            unsigned level;
            uint64_t index;
            struct bytes root, hashes;
        } tile;
        struct dump_payload {
            uint64_t sequence;
            struct bytes subject;
            bool has_key; /* the subject's key is stored, too */
            uint32_t length;
        } payload;
        struct dump_checkpoint {
            uint64_t size;
            struct bytes root, note;
        } checkpoint;
        struct dump_run {
            struct bytes key;
            int64_t last, ordinal;
            uint32_t
                cardinality; /* of the row; `sequences` has 8 bytes for each, or nothing if there are more than DUMP_RUN_MAX */
            struct bytes sequences;
        } run;
        struct dump_post {
            int64_t key;
            uint64_t block;
            struct bytes subject; /* of a BLIND record; else empty */
            struct bytes list;
        } post;
        struct dump_tag {
            struct bytes repository, tag, digest;
        } tag;
        struct dump_binding {
            struct uuid id;
            bool is_live;
            struct bytes role, holder, scope; /* "publisher", "robot:ID" or "external", "acme/models" */
        } binding;
        struct dump_person {
            struct uuid id; /* of SCIM */
            enum scim_state state;
        } person;
        struct dump_told {
            struct uuid id;      /* of SCIM */
            bool names_event;    /* the row says which event tells it */
            struct bytes digest; /* SHA256_SIZE: of a salt, and of what the row says */
        } told;                  /* of IDENTITY and LINK */
        struct dump_group {
            struct uuid id;
            struct bytes members; /* SHA256_SIZE: of the externalId, and of their ids */
        } group;
        struct dump_end {
            uint64_t count; /* of records before */
            struct bytes hash;
        } end;
    };
};

/** "entry". */
const char *dump_type_name(enum dump_type type);

/** Appends records to a buffer, and remembers what the last record needs. */
struct dump_writer;
RESULT dump_writer_new(struct dump_writer **writer_out, struct error *err);
void dump_writer_free(struct dump_writer *writer);
DEFINE_OWNED(dump_writer);
/** The beginning of the stream. */
RESULT dump_writer_begin(struct dump_writer *writer, struct buffer *out, struct error *err) __attribute__((nonnull));
/** Appends one record, except the last. ERROR_LIMIT for a value that is longer than the format allows. */
RESULT dump_writer_add(struct dump_writer *writer, const struct dump_record *record, struct buffer *out, struct error *err)
    __attribute__((nonnull));
/** The last record. */
RESULT dump_writer_end(struct dump_writer *writer, struct buffer *out, struct error *err) __attribute__((nonnull));

/** Reads a body. ERROR_INVALID unless it has the one form of its type. */
RESULT dump_record_read(uint8_t type, struct bytes body, struct dump_record *record_out, struct error *err)
    __attribute__((nonnull));

/** Cuts a stream into records. */
struct dump_reader;
/** Takes each record; an error ends the stream. */
typedef struct result (*dump_taker)(void *context, const struct dump_record *record, struct error *err);
RESULT dump_reader_new(struct dump_reader **reader_out, struct error *err);
void dump_reader_free(struct dump_reader *reader);
DEFINE_OWNED(dump_reader);
/** ERROR_INVALID: this is no dump, or a record does not have its form, or the order is another; the message has the place in the stream. */
RESULT dump_reader_feed(struct dump_reader *reader, struct bytes piece, dump_taker take, void *context, struct error *err)
    __attribute__((nonnull(1, 3, 5)));
/** ERROR_INVALID: the stream ends before its last record. */
RESULT dump_reader_end(const struct dump_reader *reader, struct error *err) __attribute__((nonnull));
