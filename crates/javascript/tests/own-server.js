// The server of a file of tests, and a client of it.

import { after } from 'node:test';

import { observer, startServer } from './support.js';

export const server = await startServer();
export const client = await observer(server.port);

after(async () => {
  client.close();
  await server.stop();
});
