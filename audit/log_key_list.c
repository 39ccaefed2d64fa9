#include "audit/log_key_list.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

const struct log_keys *log_key_view(const struct log_key_list *list)
{
    const struct log_keys *keys = atomic_load(&list->newest);

    assert(keys != NULL);
    return keys;
}

static bool is_known(const struct log_key_list *list, const struct note_key *key)
{
    const struct log_keys *keys = atomic_load(&list->newest);

    return keys != NULL && strcmp(log_keys_newest(keys)->name, key->name) == 0 &&
           memcmp(log_keys_newest(keys)->public_key, key->public_key, sizeof key->public_key) == 0;
}

/* sijil-keyd may be another one than before: the keys that are known here must be a beginning of its keys. */
static struct result check_continues(const struct log_keys *known, const struct log_keys *keys, struct error *err)
{
    bool continues = known == NULL || known->count <= keys->count;

    for (size_t i = 0; continues && known != NULL && i < known->count; i++)
        continues = strcmp(known->keys[i].name, keys->keys[i].name) == 0 &&
                    memcmp(known->keys[i].public_key, keys->keys[i].public_key, sizeof keys->keys[i].public_key) == 0 &&
                    known->starts[i].size == keys->starts[i].size;
    if (continues) return SUCCESS;
    return failure(err, ERROR_DENIED,
                   "sijil-keyd names other keys of the log than before: another sijil-keyd is behind the socket");
}

static struct result add(struct log_key_list *list, const struct log_keys *keys, struct error *err)
{
    if (list->count == LOG_KEYS_MAX) return failure(err, ERROR_LIMIT, "the log had more than %d keys", LOG_KEYS_MAX);
    struct log_keys *copy = memory_zeroed(1, sizeof *copy);
    if (copy == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the keys of the log");
    *copy = *keys;
    list->kept[list->count++] = copy;
    atomic_store(&list->newest, copy);
    return SUCCESS;
}

struct result log_key_list_load(struct log_key_list *list, struct keyd_client *keyd, const struct keyd_identity *identity,
                                struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(LOG_KEYS_TEXT_MAX);
    struct keyd_log_keys state;
    struct note_key newest;
    struct log_keys keys;

    _Static_assert(KEYD_LOG_KEYS_MAX == LOG_KEYS_TEXT_MAX, "a message has room for the keys of a log");
    TRY(note_key_read(bytes_of_text(identity->log_vkey), &newest, err));
    if (is_known(list, &newest)) return SUCCESS;
    TRY(keyd_log_keys(keyd, &text, &state, err));
    TRY(log_keys_read(buffer_bytes(&text), &keys, err));
    TRY(check_continues(atomic_load(&list->newest), &keys, err));
    return add(list, &keys, err);
}

void log_key_list_done(struct log_key_list *list)
{
    for (size_t i = 0; i < list->count; i++) free(list->kept[i]);
    *list = (struct log_key_list){.count = 0};
}
