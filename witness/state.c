#include "witness/state.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>

#include "audit/format/add_checkpoint.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "crypto/digest.h"

#define LOCK_FILE  "lock"
#define HEAD       "sijil-witness/v1 "
#define NOTE_KEPT  (ADD_CHECKPOINT_MAX + 1024) /* bytes: what came in, and our own line */
#define FILE_BYTES (NOTE_KEPT + 256)
#define NAME_SIZE  (2 * SHA256_SIZE + sizeof ".log")

struct watched_log {
    const struct listed_log *about;
    int directory;            /* of the state */
    char name[NAME_SIZE];     /* of the file */
    pthread_mutex_t changing; /* watched_log_begin() */
    pthread_mutex_t mutex;    /* for the members below; never held while a disk works */
    struct watched_position position;
    struct buffer note;
};

struct witness_state {
    int directory, lock;
    size_t count;
    struct watched_log logs[LOG_LIST_LOGS_MAX];
};

static void name_of(const char *origin, char name_out[NAME_SIZE])
{
    uint8_t digest[SHA256_SIZE];

    sha256_of(bytes_of_text(origin), digest);
    text_hex(digest, sizeof digest, name_out);
    memcpy(name_out + 2 * sizeof digest, ".log", sizeof ".log");
}

static struct result take_folder(int directory, int *lock_out, struct error *err)
{
    OWNED_FD lock = -1;

    TRY(file_open_at(directory, LOCK_FILE, O_RDWR | O_CREAT | O_NOFOLLOW, 0600, &lock, err));
    if (flock(lock, LOCK_EX | LOCK_NB) != 0)
        return failure(err, ERROR_CONFLICT,
                       "another sijil-witness has this folder; stop it first: two with one key could cosign two histories");
    *lock_out = lock;
    lock = -1;
    return SUCCESS;
}

/* ---- the files ---- */

static struct result write_head(const char *origin, struct buffer *file, struct error *err)
{
    return buffer_format(file, err, HEAD "%s\n", origin);
}

static struct result read_file(const struct watched_log *log, struct buffer *file, struct error *err)
{
    OWNED_FD fd = -1;
    uint64_t size = 0;
    uint8_t *destination = NULL;

    TRY(file_open_at(log->directory, log->name, O_RDONLY | O_NOFOLLOW, 0, &fd, err));
    TRY(file_size(fd, &size, err));
    if (size > FILE_BYTES) return failure(err, ERROR_CORRUPT, "it is too large");
    TRY(buffer_reserve(file, (size_t)size, &destination, err));
    TRY(file_read_at(fd, destination, (size_t)size, 0, err));
    file->length = (size_t)size;
    return SUCCESS;
}

static struct result read_note(struct watched_log *log, struct bytes bytes, const struct note_key *own, struct note *note,
                               struct error *err)
{
    struct checkpoint checkpoint;
    uint64_t time_s = 0;

    TRY(note_read(bytes, note, err));
    TRY(note_verify(note, own, &time_s, err));
    TRY(checkpoint_read(note->text, &checkpoint, err));
    if (strcmp(checkpoint.origin, log->about->origin) != 0) return failure(err, ERROR_CORRUPT, "it is about another log");
    log->position.size = checkpoint.size;
    log->position.root = checkpoint.root;
    log->position.time_s = time_s;
    return buffer_add(&log->note, bytes.data, bytes.length, err);
}

static struct result read_content(struct watched_log *log, struct bytes file, const struct note_key *own, struct error *err)
{
    struct buffer OWNED_BUFFER head = BUFFER(FILE_BYTES);
    struct note *note = NULL;

    TRY(write_head(log->about->origin, &head, err));
    if (file.length < head.length || memcmp(file.data, head.data, head.length) != 0)
        return failure(err, ERROR_CORRUPT, "it does not begin as it must");
    log->position.is_accepted = true;
    if (file.length == head.length) return SUCCESS;
    note = memory_zeroed(1, sizeof *note); /* too large for the stack: the list of signatures is long */
    if (note == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a note");
    const struct result read = read_note(log, (struct bytes){file.data + head.length, file.length - head.length}, own, note, err);
    free(note);
    return read;
}

static struct result load(struct watched_log *log, const struct note_key *own, struct error *err)
{
    struct buffer OWNED_BUFFER file = BUFFER(FILE_BYTES);
    struct error why = {0};

    if (!read_file(log, &file, &why).ok) {
        if (why.kind == ERROR_NOT_FOUND) return SUCCESS; /* not accepted */
        return failure(err, why.kind, "the state of %.100s (%s) can't be read: %s", log->about->origin, log->name, why.message);
    }
    if (read_content(log, buffer_bytes(&file), own, &why).ok) return SUCCESS;
    if (why.kind == ERROR_NO_MEMORY) return failure(err, why.kind, "%s", why.message);
    return failure(
        err, ERROR_CORRUPT,
        "the state of %.100s (%s) is damaged, or was changed, or is that of another witness: %s. Restore it from a backup that is "
        "as new; with an older one this witness could cosign a second history",
        log->about->origin, log->name, why.message);
}

/* ---- opening ---- */

static void init_log(struct witness_state *state, const struct listed_log *about)
{
    struct watched_log *log = &state->logs[state->count++];

    log->about = about;
    log->directory = state->directory;
    log->note = BUFFER(NOTE_KEPT);
    name_of(about->origin, log->name);
    (void)pthread_mutex_init(&log->changing, NULL);
    (void)pthread_mutex_init(&log->mutex, NULL);
}

struct result witness_state_open(int directory, const struct log_list *list, const struct note_key *own,
                                 struct witness_state **state_out, struct error *err)
{
    OWNED(witness_state) *state = memory_zeroed(1, sizeof *state);

    if (state == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the state of a witness");
    state->directory = directory;
    state->lock = -1;
    TRY(take_folder(directory, &state->lock, err));
    for (size_t i = 0; i < list->count; i++) {
        init_log(state, &list->logs[i]);
        TRY(load(&state->logs[i], own, err));
    }
    *state_out = GIVE(state);
    return SUCCESS;
}

static bool is_listed(const struct log_list *list, const char *origin)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->logs[i].origin, origin) == 0) return true;
    return false;
}

struct result witness_state_accept(int directory, const struct log_list *list, const char *origin, struct error *err)
{
    struct buffer OWNED_BUFFER file = BUFFER(FILE_BYTES);
    OWNED_FD lock = -1, there = -1;
    char name[NAME_SIZE];

    if (!is_listed(list, origin)) return failure(err, ERROR_NOT_FOUND, "the list of logs has no log %.100s", origin);
    TRY(take_folder(directory, &lock, err));
    name_of(origin, name);
    if (file_open_at(directory, name, O_RDONLY, 0, &there, err).ok)
        return failure(err, ERROR_CONFLICT, "this witness has a state of %.100s already, and goes on from it", origin);
    if (err->kind != ERROR_NOT_FOUND) return (struct result){.ok = false};
    TRY(write_head(origin, &file, err));
    return file_replace_at(directory, name, buffer_bytes(&file), 0600, err);
}

struct watched_log *witness_state_find(struct witness_state *state, const char *origin)
{
    for (size_t i = 0; i < state->count; i++)
        if (strcmp(state->logs[i].about->origin, origin) == 0) return &state->logs[i];
    return NULL;
}

struct watched_log *witness_state_find_hex(struct witness_state *state, const char *hex)
{
    if (strlen(hex) != (size_t)2 * SHA256_SIZE) return NULL;
    for (size_t i = 0; i < state->count; i++)
        if (memcmp(state->logs[i].name, hex, (size_t)2 * SHA256_SIZE) == 0) return &state->logs[i];
    return NULL;
}

size_t witness_state_count(const struct witness_state *state)
{
    return state->count;
}

struct watched_log *witness_state_at(struct witness_state *state, size_t index)
{
    return &state->logs[index];
}

const struct listed_log *watched_log_about(const struct watched_log *log)
{
    return log->about;
}

/* ---- a log moves ---- */

struct watched_position watched_log_position(struct watched_log *log)
{
    (void)pthread_mutex_lock(&log->mutex);
    const struct watched_position position = log->position;
    (void)pthread_mutex_unlock(&log->mutex);
    return position;
}

struct result watched_log_note(struct watched_log *log, struct buffer *note, struct error *err)
{
    (void)pthread_mutex_lock(&log->mutex);
    const struct result copied = buffer_add(note, log->note.data, log->note.length, err);
    (void)pthread_mutex_unlock(&log->mutex);
    return copied;
}

void watched_log_begin(struct watched_log *log)
{
    (void)pthread_mutex_lock(&log->changing);
}

void watched_log_end(struct watched_log *log)
{
    (void)pthread_mutex_unlock(&log->changing);
}

static void keep(struct watched_log *log, const struct watched_position *position, struct buffer *note)
{
    (void)pthread_mutex_lock(&log->mutex);
    const struct buffer before = log->note;
    log->position = *position;
    log->note = *note;
    (void)pthread_mutex_unlock(&log->mutex);
    *note = before;
}

static void mark_broken(struct watched_log *log)
{
    (void)pthread_mutex_lock(&log->mutex);
    log->position.is_broken = true;
    (void)pthread_mutex_unlock(&log->mutex);
}

struct result watched_log_move(struct watched_log *log, const struct watched_position *position, struct bytes note,
                               struct error *err)
{
    struct buffer OWNED_BUFFER file = BUFFER(FILE_BYTES), copy = BUFFER(NOTE_KEPT);

    TRY(buffer_add(&copy, note.data, note.length, err));
    TRY(write_head(log->about->origin, &file, err));
    TRY(buffer_add(&file, note.data, note.length, err));
    const struct result written = file_replace_at(log->directory, log->name, buffer_bytes(&file), 0600, err);
    if (written.ok) keep(log, position, &copy);
    else mark_broken(log);
    return written;
}

void witness_state_free(struct witness_state *state)
{
    if (state == NULL) return;
    for (size_t i = 0; i < state->count; i++) {
        buffer_done(&state->logs[i].note);
        (void)pthread_mutex_destroy(&state->logs[i].changing);
        (void)pthread_mutex_destroy(&state->logs[i].mutex);
    }
    file_close_owned(&state->lock);
    free(state);
}
