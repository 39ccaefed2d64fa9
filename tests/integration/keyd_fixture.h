/*
 * tests/integration/keyd_fixture.h -- a running sijil-keyd with a client, for one test program: setup and teardown of
 * each case. For one source file of a program only: it defines what it declares.
 */
#pragma once

#include "tests/support/unit.h"

#include <signal.h>
#include <sys/wait.h>

#include "crypto/keyd_client.h"
#include "tests/support/keyd_daemon.h"

enum { CALL_MS = 10000 };

static struct keyd_daemon process;
static struct keyd_client *client;

static int start(void **state)
{
    struct error err = {0};

    (void)state;
    keyd_daemon_prepare(&process, KEYD_DAEMON_ORIGIN);
    keyd_daemon_start(&process, NULL);
    assert_true(keyd_client_new(process.socket, CALL_MS, &client, &err).ok);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    keyd_client_free(client);
    client = NULL;
    if (process.pid > 0) {
        const int status = keyd_daemon_end(&process, SIGTERM);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    keyd_daemon_remove(&process);
    return 0;
}

static struct keyd_identity identify(void)
{
    struct keyd_identity identity;
    struct error err = {0};

    if (!keyd_identify(client, &identity, &err).ok) fail_msg("%s", err.message);
    return identity;
}
