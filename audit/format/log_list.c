#include "audit/format/log_list.h"

#include <string.h>

#include "audit/format/text_rules_priv.h"
#include "base/memory.h"

static struct listed_log *log_of(struct log_list *list, const char *origin)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->logs[i].origin, origin) == 0) return &list->logs[i];
    return NULL;
}

static struct result add_key(struct log_list *list, const struct note_key *key, struct error *err)
{
    struct listed_log *log = log_of(list, key->name);

    if (log == NULL) {
        if (list->count == LOG_LIST_LOGS_MAX) return failure(err, ERROR_LIMIT, "more than %d logs", LOG_LIST_LOGS_MAX);
        log = &list->logs[list->count++];
        memcpy(log->origin, key->name, strlen(key->name) + 1);
    }
    for (size_t i = 0; i < log->key_count; i++)
        if (memcmp(log->keys[i].public_key, key->public_key, sizeof key->public_key) == 0)
            return failure(err, ERROR_INVALID, "the list has this key already");
    if (log->key_count == LOG_LIST_KEYS_MAX) return failure(err, ERROR_LIMIT, "more than %d keys of one log", LOG_LIST_KEYS_MAX);
    log->keys[log->key_count++] = *key;
    return SUCCESS;
}

static struct result read_line(struct log_list *list, struct bytes line, struct error *err)
{
    const struct bytes kind = next_word(&line), vkey = next_word(&line);
    struct note_key key;

    (void)next_word(&line); /* the URL */
    if (kind.length == 0 || kind.data[0] == '#') return SUCCESS;
    if (!bytes_equal(kind, bytes_of_text("log")) || vkey.length == 0 || next_word(&line).length > 0)
        return failure(err, ERROR_INVALID, "it is not \"log VKEY [URL]\"");
    TRY(note_key_read(vkey, &key, err));
    if (key.algorithm != NOTE_ED25519) return failure(err, ERROR_INVALID, "the key is not one that signs checkpoints (Ed25519)");
    if (strlen(key.name) > CHECKPOINT_ORIGIN_MAX)
        return failure(err, ERROR_INVALID, "the name of a log has at most %d letters", CHECKPOINT_ORIGIN_MAX);
    return add_key(list, &key, err);
}

struct result log_list_read(struct bytes text, struct log_list **list_out, struct error *err)
{
    OWNED(log_list) *list = memory_zeroed(1, sizeof *list);

    if (list == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a list of logs");
    if (text.length > LOG_LIST_BYTES_MAX)
        return failure(err, ERROR_LIMIT, "a list of logs of more than %d bytes", LOG_LIST_BYTES_MAX);
    if (text.length > 0 && memchr(text.data, 0, text.length) != NULL)
        return failure(err, ERROR_INVALID, "the list of logs is not text");
    for (unsigned number = 1; text.length > 0; number++) {
        const uint8_t *end = memchr(text.data, '\n', text.length);
        const size_t length = end == NULL ? text.length : (size_t)(end - text.data);
        struct error why = {0};
        if (!read_line(list, (struct bytes){text.data, length}, &why).ok)
            return failure(err, why.kind, "line %u of the list of logs: %s", number, why.message);
        const size_t used = end == NULL ? length : length + 1;
        text = (struct bytes){text.data + used, text.length - used};
    }
    *list_out = GIVE(list);
    return SUCCESS;
}

void log_list_free(struct log_list *list)
{
    free(list);
}
