/*
 * ring_tool DIRECTORY ORIGIN PASSPHRASE-FILE: makes a key ring and its ledgers as `sijil-keyd --init` does, but each try of the passphrase costs
 * as little as the format allows: the real sijil-keyd opens it at once. Tests of the cost itself, and of --init, use the program.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "keyd/key_register.h"
#include "keyd/keyring.h"
#include "keyd/ledger.h"
#include "keyd/run_ledger.h"

#define CHEAP_COST ((struct password_cost){.passes = 1, .memory_kib = 8}) /* the least: crypto/password.h */

static struct result make_ledgers(int directory, const uint8_t key[LEDGER_KEY_SIZE], struct error *err)
{
    TRY(ledger_create(directory, key, err));
    TRY(key_register_create(directory, key, err));
    return run_ledger_create(directory, key, 0, err);
}

static struct result make(const char *folder, const char *origin, const char *passphrase_file, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(1024);
    OWNED_FD directory = -1;

    TRY(file_read(passphrase_file, &text, err));
    const struct keyring_options options = {
        .origin = origin, .passphrase = {text.data, strcspn(buffer_text(&text), "\n")}, .cost = CHEAP_COST};
    TRY(file_open(folder, O_RDONLY | O_DIRECTORY, 0, &directory, err));
    return keyring_create(directory, &options, make_ledgers, err);
}

int main(int argc, char **argv)
{
    struct error err = {0};

    if (argc == 4 && make(argv[1], argv[2], argv[3], &err).ok) return 0;
    (void)fprintf(stderr, "ring_tool: %s\n", argc == 4 ? err.message : "usage: ring_tool DIRECTORY ORIGIN PASSPHRASE-FILE");
    return 1;
}
