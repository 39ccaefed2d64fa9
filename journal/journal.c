#include "journal/journal.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/file.h>

#include "base/file.h"
#include "base/memory.h"
#include "crypto/secret.h"

enum { COPIES = 2 };

struct journal {
    const struct journal_format *format;
    struct secret *key;
    int fd;
    uint8_t *copies; /* room for both copies */
    uint64_t generation;
    atomic_bool broken;
};

static uint8_t *copy_at(const struct journal *journal, unsigned copy)
{
    return journal->copies + copy * journal->format->copy_size;
}

static struct result make(const struct journal_format *format, const uint8_t key[JOURNAL_KEY_SIZE], struct journal **journal_out,
                          struct error *err)
{
    OWNED(journal) *journal = memory_zeroed(1, sizeof *journal);

    if (journal == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a journal");
    journal->format = format;
    journal->fd = -1;
    journal->copies = memory_zeroed(COPIES, format->copy_size);
    if (journal->copies == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a journal");
    TRY(secret_copy((struct bytes){key, JOURNAL_KEY_SIZE}, &journal->key, err));
    *journal_out = GIVE(journal);
    return SUCCESS;
}

struct result journal_create(int directory, const struct journal_format *format, const uint8_t key[JOURNAL_KEY_SIZE],
                             const void *state, struct error *err)
{
    OWNED(journal) *journal = NULL;

    TRY(make(format, key, &journal, err));
    for (unsigned i = 0; i < COPIES; i++) (void)journal_copy_write(format, key, state, 1, copy_at(journal, i));
    return file_replace_at(directory, format->name, (struct bytes){journal->copies, COPIES * format->copy_size}, 0600, err);
}

/* Makes the copy of this state durable. */
static struct result put_copy(const struct journal *journal, unsigned copy, const void *state, uint64_t generation,
                              struct error *err)
{
    const struct journal_format *format = journal->format;
    const size_t size = journal_copy_write(format, journal->key->bytes, state, generation, copy_at(journal, copy));

    TRY(file_write_at(journal->fd, copy_at(journal, copy), size, (uint64_t)copy * format->copy_size, err));
    return file_sync(journal->fd, err);
}

static bool read_copy(const struct journal *journal, unsigned copy, void *state_out, uint64_t *generation_out)
{
    return journal_copy_read(journal->format, journal->key->bytes, copy_at(journal, copy), state_out, generation_out);
}

/* The newer copy is read last, so its state remains. In a file that was cut short, a copy without its last byte is damaged. */
static struct result load(struct journal *journal, void *state_out, struct error *err)
{
    const size_t size = journal->format->copy_size;
    uint64_t generations[COPIES] = {0, 0};
    size_t length = 0;
    bool valid[COPIES];

    TRY(file_read_some(journal->fd, journal->copies, COPIES * size, 0, &length, err));
    for (unsigned i = 0; i < COPIES; i++)
        valid[i] = length >= (i + 1) * size && read_copy(journal, i, state_out, &generations[i]);
    if (!valid[0] && !valid[1])
        return failure(err, ERROR_CORRUPT, "%s is damaged, or was made under another key", journal->format->name);
    const unsigned newer = valid[0] && (!valid[1] || generations[0] >= generations[1]) ? 0 : 1;
    (void)read_copy(journal, newer, state_out, &journal->generation);
    if (valid[1 - newer] && generations[0] == generations[1]) return SUCCESS;
    return put_copy(journal, 1 - newer, state_out, journal->generation, err);
}

struct result journal_open(int directory, const struct journal_format *format, const uint8_t key[JOURNAL_KEY_SIZE],
                           void *state_out, struct journal **journal_out, struct error *err)
{
    OWNED(journal) *journal = NULL;

    TRY(make(format, key, &journal, err));
    TRY(file_open_at(directory, format->name, O_RDWR | O_NOFOLLOW, 0, &journal->fd, err));
    if (flock(journal->fd, LOCK_EX | LOCK_NB) != 0)
        return failure(err, ERROR_CONFLICT, "another process has %s open", format->name);
    TRY(load(journal, state_out, err));
    *journal_out = GIVE(journal);
    return SUCCESS;
}

struct result journal_open_or_create(int directory, const struct journal_format *format, const uint8_t key[JOURNAL_KEY_SIZE],
                                     void *state, struct journal **journal_out, struct error *err)
{
    const struct result opened = journal_open(directory, format, key, state, journal_out, err);

    if (opened.ok || err->kind != ERROR_NOT_FOUND) return opened;
    TRY(journal_create(directory, format, key, state, err));
    return journal_open(directory, format, key, state, journal_out, err);
}

struct result journal_write(struct journal *journal, const void *state, struct error *err)
{
    struct result written = SUCCESS;

    if (journal->broken)
        return failure(err, ERROR_UNAVAILABLE, "%s could not be written: start again, and see what the disk holds",
                       journal->format->name);
    for (unsigned i = 0; i < COPIES && written.ok; i++) written = put_copy(journal, i, state, journal->generation + 1, err);
    journal->broken = !written.ok;
    if (written.ok) journal->generation++;
    return written;
}

uint64_t journal_generation(const struct journal *journal)
{
    return journal->generation;
}

bool journal_is_broken(const struct journal *journal)
{
    return atomic_load(&journal->broken);
}

void journal_free(struct journal *journal)
{
    if (journal == NULL) return;
    file_close_owned(&journal->fd);
    secret_free(journal->key);
    free(journal->copies);
    free(journal);
}
