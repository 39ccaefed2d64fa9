/* The commands of `sijil` as a tree of words, for completion. */
#include <assert.h>
#include <string.h>

#include "cmd/manual/manual.h"

#define PREFIX_SIZE 64 /* all words of a command's name except the last */

bool names_file(const char *argument)
{
    static const char *const words[] = {"FILE", "FILE...", "FOLDER", "DIR", "PATH", "PEM", "SET.json", "SET.dsse", "PROOF-FILE"};

    for (size_t i = 0; argument != NULL && i < sizeof words / sizeof words[0]; i++) {
        const size_t length = strcspn(argument, " ");
        if (strlen(words[i]) == length && strncmp(argument, words[i], length) == 0) return true;
    }
    return false;
}

static void add_word(struct words *words, const char *text, size_t length)
{
    for (size_t i = 0; i < words->count; i++)
        if (strlen(words->word[i]) == length && strncmp(words->word[i], text, length) == 0) return;
    assert(words->count < WORDS_MAX && length < WORD_SIZE);
    memcpy(words->word[words->count], text, length);
    words->word[words->count++][length] = '\0';
}

void words_after(const char *prefix, struct words *words_out)
{
    size_t count = 0;
    const struct command *table = commands_table(&count);
    const size_t length = strlen(prefix);

    memset(words_out, 0, sizeof *words_out);
    for (size_t i = 0; i < count; i++)
        if (strncmp(table[i].name, prefix, length) == 0)
            add_word(words_out, table[i].name + length, strcspn(table[i].name + length, " "));
}

/* The first command with a prefix lists it. */
static bool is_first_with(const struct command *table, size_t index, size_t length)
{
    for (size_t i = 0; i < index; i++)
        if (strncmp(table[i].name, table[index].name, length) == 0) return false;
    return true;
}

void each_prefix(void (*each)(FILE *out, const char *prefix), FILE *out)
{
    size_t count = 0;
    const struct command *table = commands_table(&count);
    char prefix[PREFIX_SIZE];

    for (size_t i = 0; i < count; i++)
        for (const char *space = table[i].name; (space = strchr(space, ' ')) != NULL; space++) {
            const size_t length = (size_t)(space + 1 - table[i].name);
            assert(length < sizeof prefix);
            if (!is_first_with(table, i, length)) continue;
            memcpy(prefix, table[i].name, length);
            prefix[length] = '\0';
            each(out, prefix);
        }
}
