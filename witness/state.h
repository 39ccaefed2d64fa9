/*
 * witness/state.h -- what a witness has seen of each log: the newest checkpoint that it has cosigned, in a file of its folder.
 *
 * Rule: a position is durable before its cosignature leaves, and only one request at a time moves a log. So after a crash at any moment
 * there is one root for each size. One process at a time has the folder.
 *
 * File `<hex of SHA-256(origin)>.log`: "sijil-witness/v1 ORIGIN\n", then nothing (accepted, none seen yet), or the note with the signature
 * of the log and ours. A log without a file was never accepted here, or its file was lost: then somebody must say so (--accept), because
 * a witness that begins at zero by itself would cosign a second history.
 */
#pragma once

#include "audit/format/log_list.h"
#include "audit/format/merkle.h"

struct witness_state;
struct watched_log;

/** What is known of a log. */
struct watched_position {
    bool is_accepted; /* there is a file */
    bool is_broken;   /* a write has failed: the disk may have the new position. Only a new start knows */
    uint64_t size;    /* 0: none was seen yet */
    struct merkle_hash root;
    uint64_t time_s; /* of our newest cosignature */
};

/**
 * Takes the folder, and reads the files of the listed logs. ERROR_CONFLICT: another process has the folder. ERROR_CORRUPT: a file is not
 * as we wrote it; `own` verifies each.
 */
RESULT witness_state_open(int directory, const struct log_list *list, const struct note_key *own,
                          struct witness_state **state_out, struct error *err);
/** Makes the file of a log that is new here, or whose file was lost. ERROR_CONFLICT: there is one, or a witness runs. */
RESULT witness_state_accept(int directory, const struct log_list *list, const char *origin, struct error *err);

/** NULL: the log is not listed. */
struct watched_log *witness_state_find(struct witness_state *state, const char *origin);
/** By the hex digits of SHA-256(origin), as monitors ask. */
struct watched_log *witness_state_find_hex(struct witness_state *state, const char *hex);
size_t witness_state_count(const struct witness_state *state);
struct watched_log *witness_state_at(struct witness_state *state, size_t index);

const struct listed_log *watched_log_about(const struct watched_log *log);
struct watched_position watched_log_position(struct watched_log *log);
/** Appends the cosigned note; nothing if there is none. Never waits for a disk. */
RESULT watched_log_note(struct watched_log *log, struct buffer *note, struct error *err);

/** Between these two no other thread moves the log. */
void watched_log_begin(struct watched_log *log);
void watched_log_end(struct watched_log *log);
/** Durable on return. `note` is a copy for the file and for monitors. After a failure the log is broken. */
RESULT watched_log_move(struct watched_log *log, const struct watched_position *position, struct bytes note, struct error *err);

void witness_state_free(struct witness_state *state);
DEFINE_OWNED(witness_state);
