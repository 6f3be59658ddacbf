//! What LuaJIT keeps of a function while it reads it: labels, jumps to them, and how many local variables there are.

/// Most local variables of a function at a time (LuaJIT, `LJ_MAX_LOCVAR`).
const MOST_LOCALS: usize = 200;

/// Globals that a script finds. `error` is another, and ends it.
pub(super) const GLOBALS: &[&str] = &[
    "_G",
    "_VERSION",
    "assert",
    "bit",
    "collectgarbage",
    "coroutine",
    "debug",
    "dofile",
    "gcinfo",
    "getfenv",
    "getmetatable",
    "io",
    "ipairs",
    "jit",
    "load",
    "loadfile",
    "loadstring",
    "math",
    "module",
    "newproxy",
    "next",
    "os",
    "package",
    "pairs",
    "pcall",
    "print",
    "rawequal",
    "rawget",
    "rawset",
    "require",
    "select",
    "setfenv",
    "setmetatable",
    "string",
    "table",
    "tonumber",
    "tostring",
    "type",
    "unpack",
    "xpcall",
];

/// A function that is being read.
#[derive(Default)]
pub(super) struct Scope {
    /// Its place in the script, if it has a name.
    pub(super) named: Option<usize>,
    pub(super) takes_any: bool,
    pub(super) loops: usize,
    pub(super) locals: usize,
    /// Blocks that are being read, the innermost last.
    pub(super) blocks: Vec<Block>,
}

/// A block that is being read.
#[derive(Default)]
pub(super) struct Block {
    labels: Vec<String>,
    /// Labels that are jumped to and haven't been found.
    jumps: Vec<String>,
    /// Local variables outside of it.
    locals: usize,
}

impl Scope {
    pub(super) fn open(&mut self) {
        let locals = self.locals;
        self.blocks.push(Block {
            locals,
            ..Block::default()
        });
    }

    /// Ends a block. What it jumps to and doesn't have may be around it, as long as it is in the same function.
    pub(super) fn close(&mut self) -> Result<(), String> {
        let Some(block) = self.blocks.pop() else {
            return Ok(());
        };
        self.locals = block.locals;
        let mut open = block.jumps.into_iter().filter(|label| !block.labels.contains(label));
        match self.blocks.last_mut() {
            Some(around) => around.jumps.extend(open),
            None => {
                if let Some(label) = open.next() {
                    return Err(format!("undefined label '{label}'"));
                }
            }
        }
        Ok(())
    }

    pub(super) fn label(&mut self, name: String) -> Result<(), String> {
        match self.blocks.last_mut() {
            Some(block) if block.labels.contains(&name) => Err(format!("duplicate label '{name}'")),
            Some(block) => {
                block.labels.push(name);
                Ok(())
            }
            None => Ok(()),
        }
    }

    pub(super) fn jump(&mut self, name: String) {
        if let Some(block) = self.blocks.last_mut() {
            block.jumps.push(name);
        }
    }

    /// Takes up so many local variables until the block ends.
    pub(super) fn declare(&mut self, more: usize) -> Result<(), String> {
        self.locals += more;
        match self.locals <= MOST_LOCALS {
            true => Ok(()),
            false => Err(format!("a function has more than {MOST_LOCALS} local variables")),
        }
    }

    /// Whether statements are run one after the other here, whatever happens.
    pub(super) fn is_outermost(&self) -> bool {
        self.blocks.len() == 1
    }
}
