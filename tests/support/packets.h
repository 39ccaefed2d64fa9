/*
 * tests/support/packets.h -- packets as payloads send them. The header has definitions, so only one source file of a program may include it.
 */
#pragma once

#include <netinet/in.h>
#include <string.h>

#include "base/bytes.h"

#define IP_HEAD 20

/* Of UDP, without its own head: nobody looks there. Returns its length. */
static inline size_t make_packet(uint8_t *packet, uint32_t from, uint32_t to, const char *text)
{
    const size_t length = IP_HEAD + strlen(text);

    memset(packet, 0, IP_HEAD);
    packet[0] = 0x45;
    store_u16(packet + 2, (uint16_t)length);
    packet[9] = IPPROTO_UDP;
    store_u32(packet + 12, from);
    store_u32(packet + 16, to);
    memcpy(packet + IP_HEAD, text, strlen(text));
    return length;
}
