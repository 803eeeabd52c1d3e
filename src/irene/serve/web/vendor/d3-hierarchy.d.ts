// Types of what the dashboard uses of d3-hierarchy.js.

export function hierarchy(data: any, children?: (data: any) => any): any;
export function tree(): any;
export function partition(): any;
